//! Appends vectors with the same number of rows, row by row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConcatStep {
    pub inputs: Vec<ValueId>,
}

impl StepKind for ConcatStep {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::List(&self.inputs)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shapes = shapes::vectors(inputs, false)?;
        let length = shapes.iter().copied().map(VectorShape::length).sum();
        let shape = shapes[0].with_length(length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("inputs", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }
}
