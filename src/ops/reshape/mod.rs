//! Regroups the elements of a vector into another number of rows.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType, VectorShape},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReshapeStep {
    pub input: ValueId,
    /// Rows of the result.
    pub rows: u32,
}

impl StepKind for ReshapeStep {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let shape = shapes::vector(inputs)?;
        let refused = |problem| StepProblem::field("rows", problem);
        if self.rows == 0 {
            return Err(refused(FieldProblem::Zero));
        }
        let elements = shape.elements();
        if !elements.is_multiple_of(self.rows.into()) {
            return Err(refused(FieldProblem::NotDivisor { of: elements }));
        }
        let row = VectorShape::row(shape.field(), elements / u64::from(self.rows));
        let shape = row.and_then(|row| row.with_rows(self.rows));
        shape.map(ValueType::Vector).map_err(refused)
    }
}
