//! Vectors over GF(2) as matrices of bits, for steps that eliminate on the host.

use std::mem;

use zeroize::Zeroizing;

use super::{HostArgument, HostResult, vector_bytes};
use crate::{
    engine::JobControl,
    error::{Error, FieldProblem, Result},
    field::Gf2Words,
    gf2::{BadPivot, BitMatrix, EliminationError, MatrixSizeError, rows_of_words},
    program::ValueType,
};

/// The number of rows of a matrix of bits.
pub fn bit_rows(value: ValueType, columns: u64) -> u64 {
    rows_of_words(vector_bytes(value) / 8, columns)
}

/// The matrix of an input, which is the step's field `name`.
///
/// Errors: `Invalid` for the first row with a bit after its last column; those of `control`.
pub fn bit_matrix(
    input: HostArgument<'_>,
    columns: u64,
    name: &'static str,
    control: &JobControl,
) -> Result<BitMatrix> {
    let mut rows = input.into_rows(Gf2Words, control)?;
    let words = rows.first_mut().map(mem::take).unwrap_or_default();
    let count = rows_of_words(words.len() as u64, columns);
    BitMatrix::from_words(count, columns, words).map_err(|problem| match problem {
        MatrixSizeError::UnusedBits { row } => {
            Error::element(name, row as u64, FieldProblem::UnusedBits)
        }
        problem => Error::Internal(format!("a matrix has a wrong shape: {problem}")),
    })
}

/// The value that is a matrix.
pub fn of_bit_matrix(matrix: BitMatrix) -> HostResult {
    HostResult::of_rows(Gf2Words, Zeroizing::new(vec![matrix.into_words()]))
}

/// Why a step that eliminates has no value; `pivots` is its field with the pivots.
pub fn elimination_error(
    error: EliminationError,
    control: &JobControl,
    pivots: &'static str,
) -> Error {
    match error {
        EliminationError::Pivot(BadPivot::Zero { row }) => {
            Error::element(pivots, row as u64, FieldProblem::Zero)
        }
        EliminationError::Pivot(BadPivot::Repeated { row, earlier }) => {
            let problem = FieldProblem::RepeatedPivot { earlier: earlier as u64 };
            Error::element(pivots, row as u64, problem)
        }
        EliminationError::Stopped => control.check().err().unwrap_or(Error::Cancelled),
        error @ EliminationError::Columns { .. } => Error::Internal(error.to_string()),
    }
}
