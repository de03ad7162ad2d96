//! Limits of matrices.

/// The maximum number of rows.
pub const ROWS_MAX: u64 = 1 << 24;
/// The maximum number of columns.
pub const COLUMNS_MAX: u64 = 1 << 20;
/// The maximum memory of a matrix in bytes.
pub const MATRIX_BYTES_MAX: u64 = 1 << 34;
