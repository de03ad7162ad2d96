//! Multiplies a stored sparse matrix by each row.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::shapes;
use crate::{
    error::FieldProblem,
    program::{ExternalOperand, StepInputs, StepKind, StepProblem, ValueId, ValueType},
    sparse::SparseShape,
};

/// Its shape is part of the step, so that types and times are known without the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SparseProductStep {
    pub input: ValueId,
    /// Content hash of the stored matrix.
    pub object_id: [u8; 32],
    /// The number of the matrix's rows.
    pub rows: u64,
    /// The number of the matrix's terms.
    pub terms: u64,
}

impl SparseProductStep {
    /// Checks that the stored matrix is the one that the step describes, for an input whose rows
    /// have `length` elements.
    pub fn check_matrix(&self, shape: SparseShape, length: u64) -> Result<(), StepProblem> {
        let fields = [
            ("input", u64::from(shape.columns), length),
            ("rows", u64::from(shape.rows), self.rows),
            ("terms", u64::from(shape.terms), self.terms),
        ];
        let wrong = fields.into_iter().find(|(_, expected, got)| expected != got);
        wrong.map_or(Ok(()), |(field, expected, got)| {
            Err(StepProblem::field(field, FieldProblem::Length { expected, got }))
        })
    }
}

impl StepKind for SparseProductStep {
    fn name(&self) -> &'static str {
        "sparse_product"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        // More cannot be stored, and their modelled time must not overflow.
        let max = u64::from(u32::MAX);
        if self.terms > max {
            return Err(StepProblem::field("terms", FieldProblem::TooLarge { max }));
        }
        let product = shapes::fr_vector(inputs)?.with_length(self.rows);
        product.map(ValueType::Vector).map_err(|problem| StepProblem::field("rows", problem))
    }

    fn is_row_by_row(&self) -> bool {
        true
    }

    fn operand(&self) -> Option<ExternalOperand> {
        Some(ExternalOperand::Matrix)
    }
}
