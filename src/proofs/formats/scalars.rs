//! Conversion of scalars between text or 32 bytes big-endian and 32 bytes little-endian.

use ark_ff::{BigInt, PrimeField};
use zeroize::Zeroizing;

use super::FormatError;
use crate::curve::Fr;
pub use crate::curve::scalars::Notation;

/// Bytes of a scalar.
pub const SCALAR_BYTES: usize = 32;

/// Reads integers separated by white space.
///
/// Encoding: the result is canonical, 32 bytes little-endian each. With `reduce`, values from r
/// to 2^256 - 1 are passed on for the server to reduce.
/// Errors: `Element` with the index of the first invalid word; the message never quotes the word.
pub fn parse(radix: Notation, text: &str, reduce: bool) -> Result<Zeroizing<Vec<u8>>, FormatError> {
    // Counted first: a vector that grows leaves copies of secrets behind.
    let count = text.split_ascii_whitespace().count();
    let mut out = Zeroizing::new(Vec::with_capacity(count * SCALAR_BYTES));
    for (index, word) in text.split_ascii_whitespace().enumerate() {
        let limbs =
            radix.limbs(word).and_then(|limbs| match reduce || BigInt(limbs) < Fr::MODULUS {
                true => Ok(limbs),
                false => Err("not less than r (--reduce reduces it modulo r)"),
            });
        let limbs = limbs.map_err(|problem| FormatError::Element {
            field: "scalars",
            index,
            problem: problem.to_owned(),
        })?;
        limbs.iter().for_each(|limb| out.extend_from_slice(&limb.to_le_bytes()));
    }
    Ok(out)
}

/// Reverses the bytes of each scalar in place: EIP-4844 writes field elements big-endian.
///
/// Errors: `Length`.
pub fn reverse_scalars(bytes: &mut [u8]) -> Result<(), FormatError> {
    if !bytes.len().is_multiple_of(SCALAR_BYTES) {
        let (bytes, width) = (bytes.len(), SCALAR_BYTES);
        return Err(FormatError::Length { bytes, width, what: "scalars" });
    }
    bytes.chunks_exact_mut(SCALAR_BYTES).for_each(<[u8]>::reverse);
    Ok(())
}

/// Writes canonical scalars as text, one per line.
///
/// Shape: `bytes` is a whole number of scalars.
pub fn to_text(radix: Notation, bytes: &[u8]) -> Zeroizing<String> {
    // Enough for the longest: 77 decimal digits and a line feed.
    let mut text = Zeroizing::new(String::with_capacity(bytes.len() / SCALAR_BYTES * 78));
    for scalar in bytes.chunks_exact(SCALAR_BYTES) {
        match radix {
            Notation::Hex => {
                text.push_str("0x");
                for byte in scalar.iter().rev() {
                    text.push(char::from_digit(u32::from(byte >> 4), 16).expect("below 16"));
                    text.push(char::from_digit(u32::from(byte & 15), 16).expect("below 16"));
                }
            }
            Notation::Decimal => push_decimal(&mut text, scalar),
        }
        text.push('\n');
    }
    text
}

/// Appends decimal digits without leaving copies of them elsewhere.
///
/// Shape: `scalar` is 32 bytes little-endian.
fn push_decimal(text: &mut String, scalar: &[u8]) {
    /// Digits of a group: the most that fit 64 bits.
    const DIGITS: usize = 19;
    const GROUP: u128 = 10_u128.pow(DIGITS as u32);
    let mut limbs = Zeroizing::new([0_u64; 4]);
    for (limb, bytes) in limbs.iter_mut().zip(scalar.as_chunks().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    // 2^256 has 78 digits: 5 groups, least significant first.
    let mut groups = Zeroizing::new([0_u64; 5]);
    for group in groups.iter_mut() {
        let mut rest = 0_u128;
        for limb in limbs.iter_mut().rev() {
            let wide = (rest << 64) | u128::from(*limb);
            *limb = (wide / GROUP) as u64;
            rest = wide % GROUP;
        }
        *group = rest as u64;
    }
    let first = text.len();
    for place in (0..groups.len() * DIGITS).rev() {
        let digit = groups[place / DIGITS] / 10_u64.pow((place % DIGITS) as u32) % 10;
        if digit != 0 || text.len() > first || place == 0 {
            text.push(char::from_digit(digit as u32, 10).expect("below 10"));
        }
    }
}
