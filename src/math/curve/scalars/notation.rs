//! Integers in text.

use ark_ff::{BigInt, BigInteger, PrimeField};

use crate::curve::Fr;

/// Notation of integers in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// At most 64 hex digits, most significant first, with or without `0x`.
    Hex,
    /// Decimal digits with an optional minus: -1 is r - 1.
    Decimal,
}

impl Notation {
    /// Reads an integer below 2^256.
    ///
    /// Errors: what is wrong with the word, without its content.
    pub fn limbs(self, word: &str) -> Result<[u64; 4], &'static str> {
        match self {
            Self::Hex => hex_limbs(word),
            Self::Decimal => decimal_limbs(word),
        }
    }
}

fn hex_limbs(word: &str) -> Result<[u64; 4], &'static str> {
    let digits = word.strip_prefix("0x").unwrap_or(word).as_bytes();
    if digits.is_empty() || digits.len() > 64 {
        return Err("expected 1 to 64 hex digits");
    }
    let mut limbs = [0; 4];
    for (place, &digit) in digits.iter().rev().enumerate() {
        let value = char::from(digit).to_digit(16).ok_or("expected 1 to 64 hex digits")?;
        limbs[place / 16] |= u64::from(value) << (4 * (place % 16));
    }
    Ok(limbs)
}

fn decimal_limbs(word: &str) -> Result<[u64; 4], &'static str> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if digits.is_empty() {
        return Err("expected decimal digits");
    }
    let mut limbs = [0_u64; 4];
    for digit in digits.chars() {
        let mut carry = u128::from(digit.to_digit(10).ok_or("expected decimal digits")?);
        for limb in &mut limbs {
            let wide = u128::from(*limb) * 10 + carry;
            *limb = wide as u64;
            carry = wide >> 64;
        }
        if carry != 0 {
            return Err("does not fit 256 bits");
        }
    }
    if word.starts_with('-') { negate(limbs) } else { Ok(limbs) }
}

/// r - limbs; 0 for 0.
fn negate(limbs: [u64; 4]) -> Result<[u64; 4], &'static str> {
    let value = BigInt(limbs);
    if value.is_zero() {
        return Ok(limbs);
    }
    if value >= Fr::MODULUS {
        return Err("not greater than -r");
    }
    let mut difference = Fr::MODULUS;
    difference.sub_with_borrow(&value);
    Ok(difference.0)
}
