//! Matrices of bits.

use super::{
    limits::{COLUMNS_MAX, MATRIX_BYTES_MAX, ROWS_MAX},
    problem::MatrixSizeError,
};

/// A matrix of bits. Rows are packed into words, column 0 in the lowest bit of the first one. Bits
/// after the last column are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitMatrix {
    rows: usize,
    columns: usize,
    words: Vec<u64>,
}

impl BitMatrix {
    /// A matrix of zeros.
    ///
    /// Errors: `TooManyRows`, `TooManyColumns`, `TooLarge`.
    pub fn zeros(rows: u64, columns: u64) -> Result<Self, MatrixSizeError> {
        check_size(rows, columns)?;
        let (rows, columns) = (rows as usize, columns as usize);
        Ok(Self { rows, columns, words: vec![0; rows * columns.div_ceil(64)] })
    }

    /// A matrix of packed rows.
    ///
    /// Errors: `TooManyRows`, `TooManyColumns`, `TooLarge`; `Length` if `words` has another length;
    /// `UnusedBits` if a bit after a row's last column is set.
    pub fn from_words(rows: u64, columns: u64, words: Vec<u64>) -> Result<Self, MatrixSizeError> {
        check_size(rows, columns)?;
        let (rows, columns) = (rows as usize, columns as usize);
        let (expected, got) = (rows * columns.div_ceil(64), words.len());
        if expected != got {
            return Err(MatrixSizeError::Length { expected, got });
        }
        let matrix = Self { rows, columns, words };
        match (0..rows).find(|row| matrix.has_unused_bits(*row)) {
            Some(row) => Err(MatrixSizeError::UnusedBits { row }),
            None => Ok(matrix),
        }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Words of a row.
    pub const fn row_words(&self) -> usize {
        self.columns.div_ceil(64)
    }

    /// The words of all rows.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.row_words()..][..self.row_words()]
    }

    /// Sets a bit to 1.
    pub fn set(&mut self, row: usize, column: usize) {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        let at = row * self.row_words() + column / 64;
        self.words[at] |= 1 << (column % 64);
    }

    /// The lowest column in which the row is 1; `None` for a row of zeros.
    pub fn leading_column(&self, row: usize) -> Option<usize> {
        let words = self.row(row).iter().enumerate();
        let (at, word) = words.into_iter().find(|(_, word)| **word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// The columns in which the row is 1, in ascending order.
    pub fn ones(&self, row: usize) -> impl Iterator<Item = usize> {
        let words = self.row(row).iter().enumerate();
        words.flat_map(|(at, word)| Ones(*word).map(move |bit| at * 64 + bit))
    }

    fn has_unused_bits(&self, row: usize) -> bool {
        let used = self.columns % 64;
        used != 0 && self.row(row).last().is_some_and(|word| word >> used != 0)
    }
}

fn check_size(rows: u64, columns: u64) -> Result<(), MatrixSizeError> {
    if rows > ROWS_MAX {
        return Err(MatrixSizeError::TooManyRows { rows });
    }
    if columns > COLUMNS_MAX {
        return Err(MatrixSizeError::TooManyColumns { columns });
    }
    // Less than 2^41: does not overflow.
    let bytes = rows * columns.div_ceil(64) * 8;
    if bytes > MATRIX_BYTES_MAX {
        return Err(MatrixSizeError::TooLarge { rows, columns });
    }
    Ok(())
}

/// The bits of a word that are 1, from the lowest.
pub(super) struct Ones(pub u64);

impl Iterator for Ones {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit as usize)
    }
}
