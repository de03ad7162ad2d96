//! Fixed windows: signed digits at the same bits of every scalar.

/// The narrowest windows: 64 fixed ones, the most that kernels support.
pub const BITS_MIN: u32 = 4;
pub const BITS_MAX: u32 = 24;
/// Bits that windows cover: 254 of a scalar, and the top window's sign, which is unused.
const COVERED_BITS: u32 = 255;

/// Signed-digit recoding with windows of about equal width over every folded scalar k' < 2^254.
///
/// Window j of width w takes the w bits of k' from `offset(j)` on, plus the carry of the
/// window below: a value v in 0..=2^w. If v >= 2^(w - 1), its digit is v - 2^w and the carry is 1,
/// else the digit is v; so |digit| <= 2^(w - 1). The top window carries nothing and its digit is v:
/// widths add up to 255, so its top bit is 0 in every k', and v <= 2^(w - 1). So the sum of
/// digit(j) * 2^offset(j) is k'.
///
/// Widths are `bits` or one less. Window j belongs to bucket set `j % sets` and to table
/// `j / sets`. Table t holds 2^`table_offset(t)` P for every base P, and the window's offset is
/// `table_offset(t) + shift(set)`. The shift is the same in every table, so that set sums are
/// combined by fixed doublings. Therefore all windows in a set have one width, except in the last
/// set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindows {
    /// Bits of the widest windows, which determine [`FixedWindows::buckets`].
    pub bits: u32,
    pub count: u32,
    pub sets: u32,
    /// Bit j is set if window j is narrower.
    pub narrow_mask: u64,
}

impl FixedWindows {
    /// The fewest windows of at most `bits_max` bits that cover scalars, as narrow as possible.
    ///
    /// Shape: `bits_max` in [`BITS_MIN`]`..=`[`BITS_MAX`], `sets >= 1`. `None` if `sets * tables`
    /// windows are too few, or a set would have no window.
    pub fn new(bits_max: u32, sets: u32, tables: u32) -> Option<Self> {
        if !(BITS_MIN..=BITS_MAX).contains(&bits_max) || sets == 0 {
            return None;
        }
        let count = COVERED_BITS.div_ceil(bits_max);
        let bits = COVERED_BITS.div_ceil(count);
        if sets > count || count.div_ceil(sets) > tables {
            return None;
        }
        // `left` windows, fewer than all, may be narrower. Make whole sets narrower, from the last
        // but one down; as sets differ by at most one window, the last set has room for the rest.
        let mut narrow_mask = 0_u64;
        let mut left = count * bits - COVERED_BITS;
        for set in (0..sets - 1).rev() {
            let members: u64 = (set..count).step_by(sets as usize).map(|j| 1 << j).sum();
            if members.count_ones() <= left {
                narrow_mask |= members;
                left -= members.count_ones();
            }
        }
        let last = (sets - 1..count).step_by(sets as usize).collect::<Vec<_>>();
        narrow_mask |= last.iter().rev().take(left as usize).map(|j| 1 << j).sum::<u64>();
        Some(Self { bits, count, sets, narrow_mask })
    }

    /// The number of tables, at most the requested number.
    pub fn tables(&self) -> u32 {
        self.count.div_ceil(self.sets)
    }

    /// Buckets per set, 2^(bits - 1): one per digit magnitude from 1 to 2^(bits - 1).
    pub fn buckets(&self) -> u32 {
        1 << (self.bits - 1)
    }

    /// The lowest bit of window `j`; 255 for `j = count`.
    pub fn offset(&self, j: u32) -> u32 {
        let narrow_below = self.narrow_mask & ((1_u128 << j) - 1) as u64;
        j * self.bits - narrow_below.count_ones()
    }

    pub fn table_offset(&self, t: u32) -> u32 {
        self.offset(t * self.sets)
    }

    pub fn shift(&self, set: u32) -> u32 {
        self.offset(set)
    }

    /// Windows in the sets `first..first + count`, and so the most digits of a scalar there.
    pub fn windows_in_sets(&self, first: u32, count: u32) -> u32 {
        let taken = |j: &u32| (first..first + count).contains(&(j % self.sets));
        (0..self.count).filter(taken).count() as u32
    }
}
