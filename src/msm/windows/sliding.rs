//! Windows that begin where a scalar has a bit.

use ark_ff::BigInteger;

use super::{BITS_MAX, BITS_MIN, Digit, Folded};

/// Odd digits of at most so many bits that begin anywhere: a non-adjacent form. It wants a table of
/// every power of two, and has fewer digits than [`super::Fixed`] for half as many buckets.
///
/// With N < 2^254 what is left of a folded scalar, l its bits at first and p the lowest bit of N
/// that is set, the next digit takes w bits from p on, a value v: d = v, or v - 2^w where
/// v >= 2^(w - 1), is odd, |d| < 2^(w - 1), and N - d 2^p is a multiple of 2^(p + w). On average
/// w + 1 bits are done with.
///
/// N stays at most 2^l: rounding to a multiple of 2^(p + w) cannot pass 2^l where p + w <= l, and
/// where p + w > l, v is odd and at most 2^(l - p) <= 2^(w - 1), so less, and nothing is carried.
/// So digits begin at bit l <= 254 at most: 255 tables.
///
/// The last digit would often be 1 or another small one, and one bucket would get the last digits
/// of a fifth of all scalars. So where l - p is too much for one digit, but less than 2w - 1, the
/// next one takes (l - p) / 2 + 1 bits only, and what is left for the last one is less than w. Then
/// the fullest bucket gets some 0.3 % of scalars at w = 18.
///
/// Where l - p bits are left there are (l - p + 1) / w digits, rounded up, at most: one of fewer
/// than w, two of fewer than 2w, and of more the next one takes w. So a scalar has 255 / w at most,
/// rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    bits: u32,
}

impl Sliding {
    /// 2^i P for i = 0 to 254.
    pub const TABLES: u32 = 255;

    /// Shape: `bits` in [`BITS_MIN`]`..=`[`BITS_MAX`]; `None` otherwise.
    pub fn new(bits: u32) -> Option<Self> {
        (BITS_MIN..=BITS_MAX).contains(&bits).then_some(Self { bits })
    }

    /// Bits of a digit and its sign.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// 2^(bits - 2), for the odd numbers below 2^(bits - 1).
    pub fn buckets(&self) -> u32 {
        1 << (self.bits - 2)
    }

    /// Digits of a scalar at most.
    pub fn digits_max(&self) -> u32 {
        Self::TABLES.div_ceil(self.bits)
    }

    /// Digits of a uniform scalar: within 1 % of the mean of 20000.
    pub fn digits_mean(&self) -> f64 {
        254.0 / f64::from(self.bits + 1) + 0.5
    }

    /// The digits, the lowest first: bits one by one.
    pub(super) fn digits(&self, Folded { value, negated }: Folded) -> Vec<Digit> {
        let (length, mut at, mut carry) = (value.num_bits(), 0, false);
        let bit = |at: u32| value.get_bit(at as usize);
        let mut digits = Vec::new();
        while at < length || carry {
            if bit(at) == carry {
                at += 1;
                continue;
            }
            let left = length - at;
            let width = if left < self.bits { self.bits } else { self.bits.min(left / 2 + 1) };
            // The bit at `at` becomes 1 by what is carried, if it is not.
            let taken = (0..width).map(|i| i32::from(bit(at + i)) << i).sum::<i32>() | 1;
            carry = bit(at + width - 1);
            let digit = taken - (i32::from(carry) << width);
            digits.push(Digit { table: at, set: 0, value: if negated { -digit } else { digit } });
            at += width;
        }
        digits
    }
}
