//! Evaluates each row, the coefficients of a polynomial, at a point.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::program::{Constant, StepInputs, StepKind, StepProblem, ValueId, ValueType};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluateStep {
    pub input: ValueId,
    pub point: Constant,
}

impl StepKind for EvaluateStep {
    fn name(&self) -> &'static str {
        "evaluate"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::field_vector(inputs)?;
        let point = self.point.check(shape.field());
        point.map_err(|problem| StepProblem::field("point", problem))?;
        let shape = shape.with_length(1);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("input", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
