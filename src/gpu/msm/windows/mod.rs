//! Signed-digit recoding of scalars, and the buckets and tables that digits use.

mod fixed;
mod radix;
mod sliding;

pub use self::{
    fixed::{BITS_MAX, BITS_MIN, FixedWindows},
    radix::RadixDigits,
    sliding::SlidingWindows,
};

/// The windows of a scalar's digits. A digit belongs to a bucket set and a table t: its point comes
/// from the table, which holds `factor`^t 2^`table_offset(t)` P for every base P, and the sum of
/// the set's buckets is multiplied by 2^`shift(set)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recoding {
    Fixed(FixedWindows),
    Radix(RadixDigits),
    Sliding(SlidingWindows),
}

impl Recoding {
    pub fn fixed(bits_max: u32, sets: u32, tables: u32) -> Option<Self> {
        FixedWindows::new(bits_max, sets, tables).map(Self::Fixed)
    }

    pub fn sliding(bits: u32) -> Option<Self> {
        SlidingWindows::new(bits).map(Self::Sliding)
    }

    pub fn bits(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.bits,
            Self::Radix(radix) => u32::BITS - radix.radix().leading_zeros(),
            Self::Sliding(sliding) => sliding.bits,
        }
    }

    pub fn sets(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.sets,
            Self::Radix(_) | Self::Sliding(_) => 1,
        }
    }

    pub fn tables(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.tables(),
            Self::Radix(radix) => radix.count,
            Self::Sliding(_) => SlidingWindows::TABLES,
        }
    }

    /// Buckets per set: a power of two except for [`RadixDigits`].
    pub fn buckets(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.buckets(),
            Self::Radix(radix) => radix.buckets(),
            Self::Sliding(sliding) => sliding.buckets(),
        }
    }

    /// Whether windows slide. Bucket b is then for digits of magnitude 2b + 1, otherwise b + 1.
    pub fn is_sliding(&self) -> bool {
        matches!(self, Self::Sliding(_))
    }

    /// The factor by which each table differs from the previous one, apart from powers of two: 1
    /// except for [`RadixDigits`].
    pub fn factor(&self) -> u32 {
        match self {
            Self::Fixed(_) | Self::Sliding(_) => 1,
            Self::Radix(radix) => radix.factor,
        }
    }

    pub fn table_offset(&self, t: u32) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.table_offset(t),
            Self::Radix(radix) => radix.doublings * t,
            Self::Sliding(_) => t,
        }
    }

    pub fn set_shift(&self, set: u32) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.shift(set),
            Self::Radix(_) | Self::Sliding(_) => 0,
        }
    }

    /// The most digits of a scalar in the sets `first..first + count`.
    pub fn digits_max(&self, first: u32, count: u32) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.windows_in_sets(first, count),
            Self::Radix(radix) => radix.count,
            Self::Sliding(sliding) => sliding.digits_max(),
        }
    }

    /// The average digits of a uniform scalar; zeros count unless windows slide.
    pub fn digits_mean(&self) -> f64 {
        match self {
            Self::Fixed(fixed) => f64::from(fixed.count),
            Self::Radix(radix) => f64::from(radix.count),
            Self::Sliding(sliding) => sliding.digits_mean(),
        }
    }
}
