//! The signed digits of scalars, computed bit by bit: the reference for kernels and windows.

use ark_bls12_381::Fr;
use ark_ff::{BigInt, BigInteger, PrimeField};
use capstan::msm::{FixedWindows, RadixDigits, Recoding, SlidingWindows};

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

/// A radix that kernels have for tests only: it has few buckets.
pub const SMALL_RADIX: RadixDigits = RadixDigits { count: 26, factor: 7, doublings: 7 };

/// Every radix that kernels have.
pub fn all_radices() -> impl Iterator<Item = RadixDigits> {
    [SMALL_RADIX].into_iter().chain(RadixDigits::ALL)
}

/// The digits in a radix with `count` windows, if there is one.
pub fn radix(count: u32) -> Option<Recoding> {
    all_radices().find(|radix| radix.count == count).map(Recoding::Radix)
}

/// The nonzero digits of `scalar`, lowest first.
pub fn digits(windows: &Recoding, scalar: Fr) -> Vec<SignedDigit> {
    // The scalar k is folded to min(k, r - k); r - k negates all digits. r is odd and below 2^255,
    // so this is at most (r - 1) / 2 < 2^254.
    let (plain, negated) = (scalar.into_bigint(), (-scalar).into_bigint());
    let folded = negated.min(plain);
    let mut digits = match windows {
        Recoding::Fixed(fixed) => fixed_digits(fixed, folded),
        Recoding::Radix(radix) => radix_digits(radix, folded),
        Recoding::Sliding(sliding) => sliding_digits(sliding, folded),
    };
    digits.retain(|digit| digit.value != 0);
    if negated < plain {
        digits.iter_mut().for_each(|digit| digit.value = -digit.value);
    }
    digits
}

/// The bucket of a digit of this value, within its set.
pub fn bucket(windows: &Recoding, value: i32) -> u32 {
    match windows {
        Recoding::Fixed(_) | Recoding::Radix(_) => value.unsigned_abs() - 1,
        Recoding::Sliding(_) => value.unsigned_abs() / 2,
    }
}

fn fixed_digits(windows: &FixedWindows, folded: BigInt<4>) -> Vec<SignedDigit> {
    let mut carry = 0;
    let digit = |j| {
        let (offset, end) = (windows.offset(j), windows.offset(j + 1));
        let bit = |i| i32::from(folded.get_bit(i as usize)) << (i - offset);
        let taken = (offset..end).map(bit).sum::<i32>() + carry;
        let width = end - offset;
        carry = i32::from(taken >= 1 << (width - 1) && j + 1 < windows.count);
        let value = taken - (carry << width);
        SignedDigit { table: j / windows.sets, set: j % windows.sets, value }
    };
    (0..windows.count).map(digit).collect()
}

/// By long division.
fn radix_digits(windows: &RadixDigits, mut folded: BigInt<4>) -> Vec<SignedDigit> {
    let (radix, mut carry) = (i64::from(windows.radix()), 0);
    let digit = |table| {
        let mut remainder = 0;
        for limb in folded.0.iter_mut().rev() {
            let dividend = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(windows.radix())) as u64;
            remainder = (dividend % u128::from(windows.radix())) as u64;
        }
        let taken = remainder as i64 + carry;
        carry = i64::from(taken >= radix / 2);
        SignedDigit { table, set: 0, value: (taken - carry * radix) as i32 }
    };
    (0..windows.count).map(digit).collect()
}

fn sliding_digits(windows: &SlidingWindows, folded: BigInt<4>) -> Vec<SignedDigit> {
    let (length, mut low, mut carry) = (folded.num_bits(), 0, false);
    let bit = |i: u32| folded.get_bit(i as usize);
    let mut digits = Vec::new();
    while low < length || carry {
        if bit(low) == carry {
            low += 1;
            continue;
        }
        let left = length - low;
        let width = if left < windows.bits { windows.bits } else { windows.bits.min(left / 2 + 1) };
        // The carry sets the lowest bit if it is 0.
        let taken = (0..width).map(|i| i32::from(bit(low + i)) << i).sum::<i32>() | 1;
        carry = bit(low + width - 1);
        digits.push(SignedDigit { table: low, set: 0, value: taken - (i32::from(carry) << width) });
        low += width;
    }
    digits
}
