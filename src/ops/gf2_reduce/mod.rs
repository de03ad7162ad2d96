//! Reduces the rows of a matrix of bits by pivot rows, and promotes rows to pivots.

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

/// The fields of the inputs.
const NAMES: [&str; 2] = ["pivots", "rows"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gf2ReduceStep {
    /// The pivots, and the rows to reduce.
    pub inputs: [ValueId; 2],
    /// The number of columns of both matrices.
    pub columns: u64,
}

impl StepKind for Gf2ReduceStep {
    fn name(&self) -> &'static str {
        "gf2_reduce"
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::Pair { ids: &self.inputs, names: NAMES }
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        let &[pivots, rows] = inputs else {
            return Err(StepProblem::field(NAMES[0], FieldProblem::Missing));
        };
        for (value, name) in [(pivots, NAMES[0]), (rows, NAMES[1])] {
            check_bit_matrix(value, self.columns, name)?;
        }
        Ok(rows)
    }

    fn can_overwrite(&self, position: usize) -> bool {
        NAMES[position] == "rows"
    }
}
