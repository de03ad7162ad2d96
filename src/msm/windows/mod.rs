//! Signed-digit recoding of scalars, and the buckets and tables that digits use.

mod fixed;
mod radix;
mod sliding;

use ark_ff::{BigInt, PrimeField};

pub use self::{fixed::FixedWindows, radix::RadixDigits, sliding::SlidingWindows};
use crate::curve::Fr;

/// The narrowest windows: 64 fixed ones, the most that kernels support.
pub const BITS_MIN: u32 = 4;
/// The widest windows.
pub const BITS_MAX: u32 = 24;

/// The windows of a scalar's digits. A digit belongs to a bucket set and a table t: its point comes
/// from the table, which holds `factor`^t 2^`table_offset(t)` P for every base P, and the sum of
/// the set's buckets is multiplied by 2^`shift(set)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recoding {
    /// Windows at the same bits of every scalar.
    Fixed(FixedWindows),
    /// Digits in a radix that is not a power of two.
    Radix(RadixDigits),
    /// Sliding windows (wNAF): need one table per power of two.
    Sliding(SlidingWindows),
}

/// A digit that is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedDigit {
    /// The index of its table.
    pub table: u32,
    /// The index of its bucket set.
    pub set: u32,
    /// The factor of the point.
    pub value: i32,
}

/// A scalar k as k' = min(k, r - k), and whether that is r - k, which negates all digits. r is odd
/// and below 2^255, so k' <= (r - 1) / 2 < 2^254.
struct FoldedScalar {
    value: BigInt<4>,
    negated: bool,
}

impl Recoding {
    /// Fixed windows: see [`FixedWindows::new`].
    pub fn fixed(bits_max: u32, sets: u32, tables: u32) -> Option<Self> {
        FixedWindows::new(bits_max, sets, tables).map(Self::Fixed)
    }

    /// Windows of a radix: see [`RadixDigits::new`].
    pub fn radix(count: u32) -> Option<Self> {
        RadixDigits::new(count).map(Self::Radix)
    }

    /// Sliding windows: see [`SlidingWindows::new`].
    pub fn sliding(bits: u32) -> Option<Self> {
        SlidingWindows::new(bits).map(Self::Sliding)
    }

    /// Bits of the widest windows, rounded up.
    pub fn bits(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.bits(),
            Self::Radix(radix) => u32::BITS - radix.radix().leading_zeros(),
            Self::Sliding(sliding) => sliding.bits(),
        }
    }

    /// The number of bucket sets.
    pub fn sets(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.sets(),
            Self::Radix(_) | Self::Sliding(_) => 1,
        }
    }

    /// The number of tables.
    pub fn tables(&self) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.tables(),
            Self::Radix(radix) => radix.count(),
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

    /// The bucket of a digit of this value, within its set.
    pub fn bucket(&self, value: i32) -> u32 {
        match self {
            Self::Fixed(_) | Self::Radix(_) => value.unsigned_abs() - 1,
            Self::Sliding(_) => value.unsigned_abs() / 2,
        }
    }

    /// The factor by which each table differs from the previous one, apart from powers of two: 1
    /// except for [`RadixDigits`].
    pub fn factor(&self) -> u32 {
        match self {
            Self::Fixed(_) | Self::Sliding(_) => 1,
            Self::Radix(radix) => radix.factor(),
        }
    }

    /// Table `t` holds the bases times 2 to this power and `factor` to the power `t`.
    pub fn table_offset(&self, t: u32) -> u32 {
        match self {
            Self::Fixed(fixed) => fixed.table_offset(t),
            Self::Radix(radix) => radix.doublings() * t,
            Self::Sliding(_) => t,
        }
    }

    /// The sum of set `set` is multiplied by 2 to this power.
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
            Self::Radix(radix) => radix.count(),
            Self::Sliding(sliding) => sliding.digits_max(),
        }
    }

    /// The average digits of a uniform scalar; zeros count unless windows slide.
    pub fn digits_mean(&self) -> f64 {
        match self {
            Self::Fixed(fixed) => f64::from(fixed.count()),
            Self::Radix(radix) => f64::from(radix.count()),
            Self::Sliding(sliding) => sliding.digits_mean(),
        }
    }

    /// The nonzero digits of `scalar`, lowest first. Tests compare the kernels with it.
    pub fn digits(&self, scalar: Fr) -> Vec<SignedDigit> {
        let (plain, other) = (scalar.into_bigint(), (-scalar).into_bigint());
        let folded = FoldedScalar { value: other.min(plain), negated: other < plain };
        match self {
            Self::Fixed(fixed) => fixed.digits(folded),
            Self::Radix(radix) => radix.digits(folded),
            Self::Sliding(sliding) => sliding.digits(folded),
        }
    }
}
