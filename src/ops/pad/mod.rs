//! Appends zeros to each row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PadStep {
    pub input: ValueId,
    /// Elements of each row of the result.
    pub length: u64,
}

impl StepKind for PadStep {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let padded = match self.length < shape.length() {
            true => Err(FieldProblem::TooSmall { min: shape.length() }),
            false => shape.with_length(self.length),
        };
        padded.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
