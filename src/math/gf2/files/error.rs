//! What is wrong with a file of a matrix.

use super::super::problem::{COLUMNS_MAX, MatrixSizeError};

/// Why a file is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixFileError {
    /// A line of text is malformed.
    #[error("line {line}, character {character}: {problem}")]
    Text {
        /// The number of the line, from 1 on.
        line: usize,
        /// The position in the line, in bytes from 1 on.
        character: usize,
        /// What is wrong there.
        problem: MatrixTextProblem,
    },
    /// A file of packed bits ends in its header.
    #[error("truncated: the header has 24 bytes, but the file has {bytes}")]
    Header {
        /// The length of the file.
        bytes: usize,
    },
    /// A file of packed bits has another length than its header says.
    #[error("wrong length: by its header, the file has {expected} bytes, but it has {got}")]
    FileLength {
        /// The length by the header.
        expected: u64,
        /// The length of the file.
        got: u64,
    },
    /// The matrix is too large, or has bits after its last column.
    #[error(transparent)]
    Matrix(#[from] MatrixSizeError),
}

/// What is wrong with a line of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixTextProblem {
    /// Something else than digits and blanks.
    #[error("expected the number of a column in decimal digits")]
    NotANumber,
    /// The column's number is too large.
    #[error("too large: columns are numbered from 0 to {}", COLUMNS_MAX - 1)]
    ColumnTooLarge,
    /// A column is listed twice in a row.
    #[error("the line lists this column twice")]
    RepeatedColumn,
    /// The columns are not in the order of the columns before.
    #[error("the columns of a file must all be in descending order, or all in ascending order")]
    OrderChanges,
}

/// Why files do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixFilesError {
    /// One file lists columns in descending order, the other in ascending order.
    #[error(
        "the files have different leading columns: one lists columns in descending order, the \
         other in ascending order (packed bits are in ascending order)"
    )]
    Orders,
    /// Packed matrices have different numbers of columns, or text has columns after them.
    #[error("the files have different numbers of columns: {first} and {second}")]
    ColumnCounts {
        /// Columns of one file.
        first: u64,
        /// Columns of the other file.
        second: u64,
    },
}
