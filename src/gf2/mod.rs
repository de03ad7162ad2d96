//! Gaussian elimination over GF(2), on the host and on GPUs: matrices of bits, their files, the
//! reduction of rows by pivot rows, and echelon forms.
//!
//! A row's leading column is the lowest column in which it is 1. On the host, elimination goes
//! through the matrix in panels of 512 columns, and in a panel through words of 64 columns:
//!
//! - `word_scan` finds in one word of each row which pivot rows must be added to it, and which rows
//!   become pivots.
//! - `step` adds them in one panel, through tables of the sums of eight pivots each (the method of
//!   the four Russians).
//! - `elimination` does that word by word in the first panel, and then for all later panels in
//!   parallel. `strips` keeps each panel's columns together in memory.
//! - `reduce` and `echelon` are the operations; `files` reads and writes matrices.
//! - `gpu` eliminates in the memory of a GPU, for steps of programs: all columns of a matrix, or
//!   some of them if it is larger than that memory.

mod echelon;
mod elimination;
pub mod files;
mod limits;
mod line;
mod matrix;
mod problem;
mod reduce;
mod step;
mod strips;
mod word_scan;

#[cfg(test)]
mod tests;

#[cfg(feature = "server")]
pub use capstan_gpu::gf2_elimination as gpu;

#[cfg(feature = "server")]
pub(crate) use echelon::echelon_by;
pub use echelon::{Echelon, echelon, rank};
pub use elimination::EliminationProgress;
#[cfg(feature = "server")]
pub(crate) use elimination::pivot_order;
#[cfg(feature = "server")]
pub(crate) use elimination::{LeadingColumns, MatrixElimination};
pub use limits::{COLUMNS_MAX, MATRIX_BYTES_MAX, ROWS_MAX};
pub use matrix::{BitMatrix, rows_of_words};
pub use problem::{BadPivot, EliminationError, MatrixSizeError};
#[cfg(feature = "server")]
pub(crate) use reduce::reduce_by;
pub use reduce::{Reduction, reduce};

/// Bytes of memory that [`reduce`] and [`echelon`] take for a matrix, in addition to their
/// operands. Does not overflow for a matrix within the limits.
#[cfg(feature = "server")]
pub fn working_bytes(rows: u64, columns: u64) -> u64 {
    elimination::Elimination::bytes(rows, columns)
}
