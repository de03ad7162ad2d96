//! The limits of matrices, why matrices are refused, and why an elimination ends early.

/// The maximum number of rows.
pub const ROWS_MAX: u64 = 1 << 24;
/// The maximum number of columns.
pub const COLUMNS_MAX: u64 = 1 << 20;
/// The maximum memory of a matrix in bytes.
pub const MATRIX_BYTES_MAX: u64 = 1 << 34;

/// Why numbers and words are not a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatrixSizeError {
    /// The matrix has too many rows.
    #[error("{rows} rows: at most {ROWS_MAX} are allowed")]
    TooManyRows {
        /// The number of rows.
        rows: u64,
    },
    /// The matrix has too many columns.
    #[error("{columns} columns: at most {COLUMNS_MAX} are allowed")]
    TooManyColumns {
        /// The number of columns.
        columns: u64,
    },
    /// The matrix takes too much memory.
    #[error("{rows} rows of {columns} columns take more than {MATRIX_BYTES_MAX} bytes of memory")]
    TooLarge {
        /// The number of rows.
        rows: u64,
        /// The number of columns.
        columns: u64,
    },
    /// The number of words is not that of the rows.
    #[error("wrong length: expected {expected} words, got {got}")]
    Length {
        /// The right number of words.
        expected: usize,
        /// The number of words received.
        got: usize,
    },
    /// A bit after the last column is set.
    #[error("row {row} has a bit that is set after its last column")]
    UnusedBits {
        /// The first such row.
        row: usize,
    },
}

/// Why a row cannot be a pivot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPivot {
    /// The row has no leading column.
    #[error("pivot {row} is zero: a pivot needs a leading column")]
    Zero {
        /// The index of the pivot.
        row: usize,
    },
    /// An earlier pivot has the same leading column.
    #[error("pivot {row} has the leading column of pivot {earlier}")]
    Repeated {
        /// The index of the pivot.
        row: usize,
        /// The index of the earlier pivot.
        earlier: usize,
    },
}

impl BadPivot {
    /// The index of the pivot that is refused.
    pub const fn row(self) -> usize {
        match self {
            Self::Zero { row } | Self::Repeated { row, .. } => row,
        }
    }
}

/// Why an elimination has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EliminationError {
    /// A pivot is not allowed.
    #[error(transparent)]
    Pivot(#[from] BadPivot),
    /// Pivots and rows have different numbers of columns.
    #[error("the pivots have {pivots} columns, but the rows have {rows}")]
    Columns {
        /// Columns of the pivots.
        pivots: usize,
        /// Columns of the rows.
        rows: usize,
    },
    /// The caller asked for the end.
    #[error("stopped by the caller")]
    Stopped,
}
