//! Computes the reduced row echelon form of a matrix of bits.

#[cfg(feature = "server")]
mod cpu;
#[cfg(feature = "server")]
mod gpu;

use serde::{Deserialize, Serialize};

use super::bit_matrix::check_bit_matrix;
use crate::{
    error::FieldProblem,
    program::{StepInputs, StepKind, StepProblem, ValueId, ValueType},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gf2EchelonStep {
    pub input: ValueId,
    /// The number of columns.
    pub columns: u64,
}

impl StepKind for Gf2EchelonStep {
    fn name(&self) -> &'static str {
        "gf2_echelon"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::One(&self.input)
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let &[matrix] = inputs else {
            return Err(StepProblem::field("input", FieldProblem::Missing));
        };
        check_bit_matrix(matrix, self.columns, "input")?;
        Ok(matrix)
    }

    fn can_overwrite(&self, _: usize) -> bool {
        true
    }
}
