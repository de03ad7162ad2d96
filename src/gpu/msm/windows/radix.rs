//! Signed digits in a radix that is not a power of two.

/// Signed digits in radix B = `factor` 2^`doublings`, with B just large enough that `count` windows
/// cover every folded scalar k' <= (r - 1) / 2. Eleven windows of powers of two need 2^24 and so
/// 2^23 buckets; B = 9 * 2^20 has 4.7 M. There is one bucket set, and table j holds B^j P.
///
/// Digits are from -B / 2 to B / 2 - 1: with h = B / 2 (1 + B + ... + B^(c - 1)), they are the
/// digits of k' + h in radix B, each minus B / 2. (r - 1) / 2 + h < B^c, so c digits suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixDigits {
    /// The number of windows, and of tables.
    pub count: u32,
    pub factor: u32,
    pub doublings: u32,
}

impl RadixDigits {
    /// The radices that an MSM may use. `kernels/params/radices.cuh` has their constants, by
    /// `scripts/kernel-params`.
    pub const ALL: [Self; 2] = [
        Self { count: 12, factor: 5, doublings: 19 },
        Self { count: 11, factor: 9, doublings: 20 },
    ];

    pub fn radix(&self) -> u32 {
        self.factor << self.doublings
    }

    /// One bucket per digit magnitude, from 1 to half of the radix.
    pub fn buckets(&self) -> u32 {
        self.radix() / 2
    }
}
