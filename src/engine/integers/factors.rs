//! Factors, and their lengths.

use std::ops::Range;

/// The lengths of two factors, and their number of rows.
#[derive(Debug, Clone, Copy)]
pub struct FactorLimbs {
    pub a: u64,
    pub b: u64,
    pub rows: u32,
}

/// The factors: rows of the same number, of at least one limb each.
#[derive(Clone, Copy)]
pub struct IntegerFactors<'a> {
    pub a: &'a [Vec<u32>],
    /// `None` for the square of `a`.
    pub b: Option<&'a [Vec<u32>]>,
}

impl IntegerFactors<'_> {
    pub(super) fn rows(&self, rows: Range<usize>) -> Self {
        Self { a: &self.a[rows.clone()], b: self.b.map(|b| &b[rows]) }
    }
}
