//! Divides each row, the coefficients of a polynomial f: (f - f(point)) / (X - point).

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    curve::{Fr, serialized},
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DivideByLinearStep {
    pub input: ValueId,
    #[serde(with = "serialized::fr")]
    pub point: Fr,
}

impl StepKind for DivideByLinearStep {
    fn name(&self) -> &'static str {
        "divide_by_linear"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        shapes::fr_vector(inputs).map(ValueType::Vector)
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
