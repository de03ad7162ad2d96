//! Windows that lie at the same bits of every scalar.

use ark_ff::BigInteger;

use super::{BITS_MAX, BITS_MIN, Digit, Folded};

/// Bits that windows share: 254 of a scalar and one for the top window's sign, which is not used.
const COVERED_BITS: u32 = 255;

/// Signed windows of about equal width that cover every folded scalar k' < 2^254.
///
/// Window j takes the w = `width(j)` bits of k' from
/// `offset(j)` on and the carry of the window below, a value v in 0..=2^w. If v >= 2^(w - 1), its
/// digit is v - 2^w and 1 is carried, else the digit is v; so |digit| <= 2^(w - 1) either way. The
/// top window carries nothing and its digit is v: widths add up to 255, so its top bit is 0 in
/// every k', and v <= 2^(w - 1). So the sum of digit(j) * 2^offset(j) is k'.
///
/// Widths are `bits` or one less. Window j belongs to bucket set `j % sets` and to table
/// `j / sets`. Table t holds 2^`table_offset(t)` P for every base P, and the window's offset is
/// `table_offset(t) + shift(set)`: the shift is the same in every table, so that sums of sets are
/// put together by fixed doublings. That is why all windows of a set but the last are of one width:
/// only what follows the last set's windows may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    bits: u32,
    count: u32,
    sets: u32,
    /// Bit j says that window j is narrower.
    narrow: u64,
}

impl Fixed {
    /// As few windows of at most `bits_max` bits as cover scalars, and as narrow as so many can be.
    ///
    /// Shape: `bits_max` in [`BITS_MIN`]`..=`[`BITS_MAX`], `sets >= 1`. `None` where
    /// `sets * tables` windows are too few, or where a set would have no window.
    pub fn new(bits_max: u32, sets: u32, tables: u32) -> Option<Self> {
        if !(BITS_MIN..=BITS_MAX).contains(&bits_max) || sets == 0 {
            return None;
        }
        let count = COVERED_BITS.div_ceil(bits_max);
        let bits = COVERED_BITS.div_ceil(count);
        if sets > count || count.div_ceil(sets) > tables {
            return None;
        }
        // So many windows may be narrower; fewer than there are. Whole sets first, from the last
        // but one down; where one is too large, no more are left than the last set has, since sets
        // differ by one window at most.
        let (mut narrow, mut left) = (0_u64, count * bits - COVERED_BITS);
        for set in (0..sets - 1).rev() {
            let members: u64 = (set..count).step_by(sets as usize).map(|j| 1 << j).sum();
            if members.count_ones() <= left {
                narrow |= members;
                left -= members.count_ones();
            }
        }
        let last = (sets - 1..count).step_by(sets as usize).collect::<Vec<_>>();
        narrow |= last.iter().rev().take(left as usize).map(|j| 1 << j).sum::<u64>();
        Some(Self { bits, count, sets, narrow })
    }

    /// Bits of the widest windows; buckets are [`Fixed::buckets`] for it.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// How many windows.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bucket sets.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// How many tables: no more than were asked for.
    pub fn tables(&self) -> u32 {
        self.count.div_ceil(self.sets)
    }

    /// Buckets of a set, 2^(bits - 1): for digits 1 to 2^(bits - 1), in size.
    pub fn buckets(&self) -> u32 {
        1 << (self.bits - 1)
    }

    /// Bits of window `j`.
    pub fn width(&self, j: u32) -> u32 {
        self.bits - (self.narrow >> j & 1) as u32
    }

    /// The least bit of window `j`; 255 for `j = count`.
    pub fn offset(&self, j: u32) -> u32 {
        let below = self.narrow & ((1_u128 << j) - 1) as u64;
        j * self.bits - below.count_ones()
    }

    /// Table `t` holds bases times 2 to this power.
    pub fn table_offset(&self, t: u32) -> u32 {
        self.offset(t * self.sets)
    }

    /// The sum of set `set`'s buckets counts times 2 to this power.
    pub fn shift(&self, set: u32) -> u32 {
        self.offset(set)
    }

    /// Windows of the sets `first..first + count`: digits of a scalar that a pass over them sorts.
    pub fn in_sets(&self, first: u32, count: u32) -> u32 {
        let taken = |j: &u32| (first..first + count).contains(&(j % self.sets));
        (0..self.count).filter(taken).count() as u32
    }

    /// Which windows are narrower: bit j for window j. What the kernels get.
    pub(in crate::msm) fn narrow(&self) -> u64 {
        self.narrow
    }

    /// The digits that are not 0, the lowest first: bits one by one.
    pub(super) fn digits(&self, Folded { value, negated }: Folded) -> Vec<Digit> {
        let mut carry = 0;
        let digit = |j| {
            let (offset, width) = (self.offset(j), self.width(j));
            let bit = |i| i32::from(value.get_bit((offset + i) as usize)) << i;
            let taken = (0..width).map(bit).sum::<i32>() + carry;
            carry = i32::from(taken >= 1 << (width - 1) && j + 1 < self.count);
            let digit = taken - (carry << width);
            let value = if negated { -digit } else { digit };
            Digit { table: j / self.sets, set: j % self.sets, value }
        };
        (0..self.count).map(digit).filter(|digit| digit.value != 0).collect()
    }
}
