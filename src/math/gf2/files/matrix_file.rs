//! A file in either format, and files that belong together.

use super::{
    super::matrix::BitMatrix,
    error::{MatrixFileError, MatrixFilesError},
    packed,
    text::{self, ColumnOrder, SparseRows},
};

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixFile(Content);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Text(SparseRows),
    Packed(BitMatrix),
}

/// What files that belong together have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLayout {
    /// The number of columns.
    pub columns: u64,
    /// Which columns are leading.
    pub order: ColumnOrder,
}

impl MatrixFile {
    /// Reads a file: packed bits if it begins with their eight bytes, else text. Memory is bounded
    /// by the file's length.
    ///
    /// Errors: `Text`, `Header`, `FileLength`, `Matrix`.
    pub fn parse(file: &[u8]) -> Result<Self, MatrixFileError> {
        let content = match file.starts_with(packed::MAGIC) {
            true => Content::Packed(packed::parse(file)?),
            false => Content::Text(SparseRows::parse(file)?),
        };
        Ok(Self(content))
    }

    /// The matrix, with its leading columns lowest. That of text takes memory for all of its bits,
    /// at most `MATRIX_BYTES_MAX` bytes.
    ///
    /// Errors: `Matrix` if it is too large.
    pub fn into_matrix(self, layout: FileLayout) -> Result<BitMatrix, MatrixFileError> {
        match self.0 {
            Content::Text(rows) => rows.to_matrix(layout.columns, layout.order),
            Content::Packed(matrix) => Ok(matrix),
        }
    }

    /// The bytes of a file of this format.
    pub const fn writer(&self) -> fn(&BitMatrix, ColumnOrder) -> Vec<u8> {
        match self.0 {
            Content::Text(_) => |matrix, order| text::write(matrix, order).into_bytes(),
            Content::Packed(_) => |matrix, _| packed::write(matrix),
        }
    }

    fn order(&self) -> Option<ColumnOrder> {
        match &self.0 {
            Content::Text(rows) => rows.order,
            Content::Packed(_) => Some(ColumnOrder::Ascending),
        }
    }

    fn columns(&self) -> u64 {
        match &self.0 {
            Content::Text(rows) => rows.column_count(),
            Content::Packed(matrix) => matrix.columns() as u64,
        }
    }

    const fn is_packed(&self) -> bool {
        matches!(self.0, Content::Packed(_))
    }
}

impl FileLayout {
    /// The layout of one file.
    pub fn of(file: &MatrixFile) -> Self {
        let order = file.order().unwrap_or(ColumnOrder::Descending);
        Self { columns: file.columns(), order }
    }

    /// The layout of two files. Text has as many columns as the other file if that has more.
    ///
    /// Errors: `Orders`, `ColumnCounts`.
    pub fn of_both(first: &MatrixFile, second: &MatrixFile) -> Result<Self, MatrixFilesError> {
        let orders = (first.order(), second.order());
        if let (Some(one), Some(other)) = orders
            && one != other
        {
            return Err(MatrixFilesError::Orders);
        }
        let order = orders.0.or(orders.1).unwrap_or(ColumnOrder::Descending);
        let counts = (first.columns(), second.columns());
        let columns = counts.0.max(counts.1);
        for (file, count) in [(first, counts.0), (second, counts.1)] {
            if file.is_packed() && count != columns {
                let (first, second) = counts;
                return Err(MatrixFilesError::ColumnCounts { first, second });
            }
        }
        Ok(Self { columns, order })
    }
}
