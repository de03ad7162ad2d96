//! Which columns are leading.

/// The order of the columns of a row, from its leading column on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// The leading column is the lowest.
    Ascending,
    /// The leading column is the highest.
    Descending,
}

impl ColumnOrder {
    /// Where a column is in a matrix with its leading columns lowest; also the reverse.
    pub(super) const fn place(self, column: usize, columns: usize) -> usize {
        match self {
            Self::Ascending => column,
            Self::Descending => columns - 1 - column,
        }
    }
}
