//! Matrices of bits.

use std::{fmt, mem};

use zeroize::Zeroizing;

use super::problem::{COLUMNS_MAX, MATRIX_BYTES_MAX, MatrixSizeError, ROWS_MAX};

/// The number of rows of a matrix that has this many words; 0 if it has no columns.
pub fn rows_of_words(words: u64, columns: u64) -> u64 {
    words.checked_div(columns.div_ceil(64)).unwrap_or(0)
}

/// A matrix of bits. Rows are packed into words, column 0 in the lowest bit of the first one. Bits
/// after the last column are zero. The bits are wiped when the matrix is dropped, and `Debug` does
/// not print them.
#[derive(Clone, PartialEq, Eq)]
pub struct BitMatrix {
    rows: usize,
    columns: usize,
    words: Zeroizing<Vec<u64>>,
}

impl fmt::Debug for BitMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitMatrix({} rows of {} columns)", self.rows, self.columns)
    }
}

impl BitMatrix {
    /// A matrix of zeros.
    ///
    /// Errors: `TooManyRows`, `TooManyColumns`, `TooLarge`.
    pub fn zeros(rows: u64, columns: u64) -> Result<Self, MatrixSizeError> {
        check_size(rows, columns)?;
        let (rows, columns) = (rows as usize, columns as usize);
        let words = Zeroizing::new(vec![0; rows * columns.div_ceil(64)]);
        Ok(Self { rows, columns, words })
    }

    /// A matrix of packed rows.
    ///
    /// Errors: `TooManyRows`, `TooManyColumns`, `TooLarge`; `Length` if `words` has another length;
    /// `UnusedBits` if a bit after a row's last column is set.
    pub fn from_words(rows: u64, columns: u64, words: Vec<u64>) -> Result<Self, MatrixSizeError> {
        let words = Zeroizing::new(words);
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

    /// The number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
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

    /// The words of all rows. The caller wipes them.
    pub fn into_words(mut self) -> Vec<u64> {
        mem::take(&mut *self.words)
    }

    /// The words of all rows. Bits after the last column must stay zero.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Puts the rows that `order` names first, in that order. It names each row once at most.
    ///
    /// Errors: those of `check`, which is called from time to time.
    pub fn put_first<E>(
        &mut self,
        order: &[usize],
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let row_words = self.row_words();
        let mut place_of: Vec<_> = (0..self.rows).collect();
        let mut row_in = place_of.clone();
        for (place, &row) in order.iter().enumerate() {
            if place % 1024 == 0 {
                check()?;
            }
            let from = place_of[row];
            if from == place {
                continue;
            }
            // The rows before `place` have their places.
            let (before, after) = self.words.split_at_mut(from * row_words);
            before[place * row_words..][..row_words].swap_with_slice(&mut after[..row_words]);
            let moved = row_in[place];
            (row_in[place], row_in[from]) = (row, moved);
            (place_of[row], place_of[moved]) = (place, from);
        }
        Ok(())
    }

    /// The words of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.row_words()..][..self.row_words()]
    }

    /// Sets a bit to 1.
    ///
    /// Panics if the matrix has no such row or column.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_first_in_any_order() {
        let words: Vec<u64> = (0..14).collect();
        for order in [&[][..], &[0, 1, 2], &[6, 0, 5], &[1, 2, 0], &[6, 5, 4, 3, 2, 1, 0]] {
            let mut matrix = BitMatrix::from_words(7, 128, words.clone()).unwrap();
            matrix.put_first(order, || Ok::<_, ()>(())).unwrap();
            for (place, row) in order.iter().enumerate() {
                assert_eq!(matrix.row(place), &words[2 * row..][..2], "{order:?}");
            }
            let mut all = matrix.into_words();
            all.sort_unstable();
            assert_eq!(all, words);
        }
        let mut matrix = BitMatrix::from_words(7, 128, words).unwrap();
        assert_eq!(matrix.put_first(&[1], || Err("stopped")), Err("stopped"));
    }
}
