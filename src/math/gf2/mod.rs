//! Gaussian elimination over GF(2): matrices of bits, their files, the reduction of rows by pivot
//! rows, and echelon forms.
//!
//! A row's leading column is the lowest column in which it is 1. Elimination goes through the
//! matrix in panels of 512 columns, and in a panel through words of 64 columns:
//!
//! - `word_scan` finds in one word of each row which pivot rows must be added to it, and which rows
//!   become pivots.
//! - `step` adds them in one panel, through tables of the sums of eight pivots each (the method of
//!   the four Russians).
//! - `elimination` does that word by word in the first panel, and then for all later panels in
//!   parallel. `strips` keeps each panel's columns together in memory.
//! - `reduce` and `echelon` are the operations; `files` reads and writes matrices.

mod echelon;
mod elimination;
pub mod files;
mod line;
mod matrix;
mod problem;
mod reduce;
mod step;
mod strips;
mod word_scan;

#[cfg(test)]
mod tests;

pub use echelon::{Echelon, echelon, echelon_by, rank};
pub use elimination::{
    EliminationProgress, LeadingColumns, MatrixElimination, ReducedRows, pivot_order,
};
pub use matrix::{BitMatrix, rows_of_words};
pub use problem::{
    BadPivot, COLUMNS_MAX, EliminationError, MATRIX_BYTES_MAX, MatrixSizeError, ROWS_MAX,
};
pub use reduce::{Reduction, reduce, reduce_by};

/// Bytes of memory that [`reduce`] and [`echelon`] take for a matrix, in addition to their
/// operands. Does not overflow for a matrix within the limits.
pub fn working_bytes(rows: u64, columns: u64) -> u64 {
    elimination::Elimination::bytes(rows, columns)
}
