//! 512 bits of a row, and tables of their sums.

use std::ops::BitXorAssign;

use zeroize::{DefaultIsZeroes, Zeroize};

/// Words of a line.
pub const LINE_WORDS: usize = 8;
/// Columns of a line.
pub const LINE_COLUMNS: usize = 64 * LINE_WORDS;

/// The bits of a row in one panel, in one line of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u64; LINE_WORDS]);

impl DefaultIsZeroes for Line {}

impl Line {
    pub const ZERO: Self = Self([0; LINE_WORDS]);

    /// A line of up to eight words; the rest is zero.
    pub fn from_words(words: &[u64]) -> Self {
        let mut line = Self::ZERO;
        line.0[..words.len()].copy_from_slice(words);
        line
    }
}

impl BitXorAssign<&Self> for Line {
    #[inline(always)]
    fn bitxor_assign(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word ^= other;
        }
    }
}

/// The sums of all subsets of `1 << BITS` rows' groups: `SIZE` is `1 << BITS`, and `GROUPS` is
/// `64 / BITS`.
pub struct SumTables<const SIZE: usize, const GROUPS: usize>(Box<[[Line; SIZE]; GROUPS]>);

/// Tables of eight pivots each: one addition for eight columns.
pub type ByteTables = SumTables<256, 8>;
/// Tables of four pivots each, which are made in an eighth of the time.
pub type NibbleTables = SumTables<16, 16>;

impl<const SIZE: usize, const GROUPS: usize> SumTables<SIZE, GROUPS> {
    const BITS: usize = SIZE.ilog2() as usize;
    /// Bytes of the tables.
    pub const BYTES: usize = size_of::<[[Line; SIZE]; GROUPS]>();

    pub fn new() -> Self {
        let tables = vec![[Line::ZERO; SIZE]; GROUPS].into_boxed_slice();
        Self(tables.try_into().unwrap_or_else(|_| unreachable!("the length is GROUPS")))
    }

    /// Fills the tables with the sums of 64 pivots. Each sum is an earlier one plus one pivot.
    pub fn fill(&mut self, pivots: &[Line; 64]) {
        for (table, pivots) in self.0.iter_mut().zip(pivots.chunks_exact(Self::BITS)) {
            for subset in 1..SIZE {
                let mut sum = table[subset & (subset - 1)];
                sum ^= &pivots[subset.trailing_zeros() as usize];
                table[subset] = sum;
            }
        }
    }

    /// Adds the pivots whose bits are set in `coefficients`.
    #[inline(always)]
    pub fn add(&self, line: &mut Line, coefficients: u64) {
        let mut sum = *line;
        for (group, table) in self.0.iter().enumerate() {
            let subset = (coefficients >> (group * Self::BITS)) as usize % SIZE;
            sum ^= &table[subset];
        }
        *line = sum;
    }
}

impl<const SIZE: usize, const GROUPS: usize> Drop for SumTables<SIZE, GROUPS> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
