//! Adds multiples of vectors of the same shape.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{Constant, StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearCombinationStep {
    pub inputs: Vec<ValueId>,
    /// One factor per input.
    pub factors: Vec<Constant>,
}

impl StepKind for LinearCombinationStep {
    fn name(&self) -> &'static str {
        "linear_combination"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::field_vectors(inputs, true)?[0];
        if self.factors.len() != inputs.len() {
            let (expected, got) = (inputs.len() as u64, self.factors.len() as u64);
            return Err(StepProblem::field("factors", FieldProblem::Length { expected, got }));
        }
        Constant::check_all(&self.factors, shape.field(), "factors")?;
        Ok(ValueType::Vector(shape))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
