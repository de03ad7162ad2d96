//! Takes a range of each row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SliceStep {
    pub input: ValueId,
    /// Index of the first element.
    pub offset: u64,
    /// Number of elements.
    pub length: u64,
}

impl StepKind for SliceStep {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let too_large = |field, max| StepProblem::field(field, FieldProblem::TooLarge { max });
        let rest = shape.length().checked_sub(self.offset);
        let rest = rest.ok_or(too_large("offset", shape.length()))?;
        if self.length > rest {
            return Err(too_large("length", rest));
        }
        let shape = shape.with_length(self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
