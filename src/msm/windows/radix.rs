//! Signed digits in a radix that is not a power of two.

use super::{FoldedScalar, SignedDigit};

/// The number of windows, and the factor and doublings of their radix, whose constants the kernels
/// have (`kernels/params/radices.cuh`, by `scripts/kernel-params`). The first is for tests: it has
/// few buckets.
const RADICES: [(u32, u32, u32); 3] = [(26, 7, 7), (12, 5, 19), (11, 9, 20)];

/// Signed digits in radix B = `factor` 2^`doublings`, with B just large enough that `count` windows
/// cover every folded scalar k' <= (r - 1) / 2. Eleven windows of powers of two need 2^24 and so
/// 2^23 buckets; B = 9 * 2^20 has 4.7 M. There is one bucket set, and table j holds B^j P.
///
/// Digits are from -B / 2 to B / 2 - 1: with h = B / 2 (1 + B + ... + B^(c - 1)), they are the
/// digits of k' + h in radix B, each minus B / 2. (r - 1) / 2 + h < B^c, so c digits suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixDigits {
    count: u32,
    factor: u32,
    doublings: u32,
}

impl RadixDigits {
    /// The radix with `count` windows; `None` except for 11, 12 and 26.
    pub fn new(count: u32) -> Option<Self> {
        Self::all().find(|own| own.count == count)
    }

    /// All radices.
    pub fn all() -> impl Iterator<Item = Self> {
        RADICES.into_iter().map(|(count, factor, doublings)| Self { count, factor, doublings })
    }

    /// The number of windows, and of tables.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The odd part of the radix.
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// The doublings of the odd part.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// The radix.
    pub fn radix(&self) -> u32 {
        self.factor << self.doublings
    }

    /// One bucket per digit magnitude, from 1 to half of the radix.
    pub fn buckets(&self) -> u32 {
        self.radix() / 2
    }

    /// The nonzero digits, lowest first, by long division.
    pub(super) fn digits(
        &self,
        FoldedScalar { mut value, negated }: FoldedScalar,
    ) -> Vec<SignedDigit> {
        let (radix, mut carry) = (i64::from(self.radix()), 0);
        let digit = |table| {
            let mut rest = 0;
            for limb in value.0.iter_mut().rev() {
                let dividend = u128::from(rest) << 64 | u128::from(*limb);
                *limb = (dividend / u128::from(self.radix())) as u64;
                rest = (dividend % u128::from(self.radix())) as u64;
            }
            let taken = rest as i64 + carry;
            carry = i64::from(taken >= radix / 2);
            let digit = (taken - carry * radix) as i32;
            SignedDigit { table, set: 0, value: if negated { -digit } else { digit } }
        };
        (0..self.count).map(digit).filter(|digit| digit.value != 0).collect()
    }
}
