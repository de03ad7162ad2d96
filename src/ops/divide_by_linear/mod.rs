//! Divides each row, the coefficients of a polynomial f: (f - f(point)) / (X - point).

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

use super::shapes;
use crate::{
    curve::Fr,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq)]
pub struct DivideByLinearStep {
    pub input: ValueId,
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
        shapes::vector(inputs).map(ValueType::Vector)
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
