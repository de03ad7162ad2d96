//! The numbers that determine the layout of a matrix.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::curve::Fr;

/// The index of the coefficient 1, which is not stored and needs no product.
pub const ONE: u32 = 0;
/// The index of the coefficient -1, which is not stored and needs no product.
pub const MINUS_ONE: u32 = 1;
/// The index of the first coefficient that is stored.
pub const UNIT_COEFFICIENTS: u32 = 2;

/// A column and the index of a coefficient.
const TERM_BYTES: u64 = 2 * size_of::<u32>() as u64;

/// The shape of a matrix. Its bytes are its coefficients, as Montgomery limbs; its terms, row by
/// row, as a column and the index of a coefficient; and for each row, the index after its last
/// term. All numbers are little-endian, indices have 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SparseShape {
    /// The number of rows.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
    /// The number of terms of all rows.
    pub terms: u32,
    /// The number of coefficients that are stored.
    pub coefficients: u32,
}

impl SparseShape {
    /// The length of the matrix in bytes.
    pub const fn bytes(self) -> u64 {
        self.rows_start() + self.rows as u64 * size_of::<u32>() as u64
    }

    pub(super) fn coefficient_bytes(self) -> Range<usize> {
        0..self.terms_start() as usize
    }

    pub(super) fn term_bytes(self) -> Range<usize> {
        self.terms_start() as usize..self.rows_start() as usize
    }

    pub(super) fn row_bytes(self) -> Range<usize> {
        self.rows_start() as usize..self.bytes() as usize
    }

    pub(super) const fn terms_start(self) -> u64 {
        self.coefficients as u64 * size_of::<Fr>() as u64
    }

    pub(super) const fn rows_start(self) -> u64 {
        self.terms_start() + self.terms as u64 * TERM_BYTES
    }
}
