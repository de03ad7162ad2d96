//! Makes a vector of the next input of the call.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

use serde::{Deserialize, Serialize};

use crate::{
    field::FieldId,
    program::{ExternalOperand, StepInputs, StepKind, StepProblem, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputStep {
    pub field: FieldId,
    pub rows: u32,
    /// Elements of each row.
    pub length: u64,
}

impl StepKind for InputStep {
    fn name(&self) -> &'static str {
        "input"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::None
    }

    fn infer(&self, _: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = VectorShape::row(self.field, 0).and_then(|row| row.with_rows(self.rows));
        let shape = shape.map_err(|problem| StepProblem::field("rows", problem))?;
        let shape = shape.with_length(self.length);
        shape.map(ValueType::Vector).map_err(|problem| StepProblem::field("length", problem))
    }

    fn operand(&self) -> Option<ExternalOperand> {
        Some(ExternalOperand::Input)
    }
}
