//! Conversion of scalars between text or 32 bytes big-endian and 32 bytes little-endian.

use ark_ff::PrimeField;
use zeroize::Zeroizing;

use super::FormatError;
use crate::curve::Fr;

/// Bytes of a scalar.
pub const SCALAR_BYTES: usize = 32;

/// Notation of integers in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// At most 64 hex digits, most significant first, with or without `0x`.
    Hex,
    /// Decimal digits with an optional minus: -1 is r - 1.
    Decimal,
}

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
        let limbs = match radix {
            Notation::Hex => hex_limbs(word),
            Notation::Decimal => decimal_limbs(word),
        };
        let limbs = limbs.and_then(|limbs| {
            if reduce || below_r(&limbs) {
                Ok(limbs)
            } else {
                Err("not less than r (--reduce reduces it modulo r)")
            }
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
        return Err(FormatError::Length {
            bytes: bytes.len(),
            width: SCALAR_BYTES,
            what: "scalars",
        });
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

type ScalarLimbs = [u64; 4];

fn below_r(limbs: &ScalarLimbs) -> bool {
    limbs.iter().rev().lt(Fr::MODULUS.0.iter().rev())
}

fn hex_limbs(word: &str) -> Result<ScalarLimbs, &'static str> {
    let digits = word.strip_prefix("0x").unwrap_or(word).as_bytes();
    if digits.is_empty() || digits.len() > 2 * SCALAR_BYTES {
        return Err("expected 1 to 64 hex digits");
    }
    let mut limbs = [0; 4];
    for (place, &digit) in digits.iter().rev().enumerate() {
        let value = char::from(digit).to_digit(16).ok_or("expected 1 to 64 hex digits")?;
        limbs[place / 16] |= u64::from(value) << (4 * (place % 16));
    }
    Ok(limbs)
}

fn decimal_limbs(word: &str) -> Result<ScalarLimbs, &'static str> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
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
    if negative { negate(limbs) } else { Ok(limbs) }
}

/// r - limbs; 0 for 0.
fn negate(limbs: ScalarLimbs) -> Result<ScalarLimbs, &'static str> {
    if limbs == [0; 4] {
        return Ok(limbs);
    }
    if !below_r(&limbs) {
        return Err("not greater than -r");
    }
    let mut difference = Fr::MODULUS.0;
    let mut borrow = false;
    for (limb, subtrahend) in difference.iter_mut().zip(limbs) {
        let (value, under) = limb.overflowing_sub(subtrahend);
        let (value, under_again) = value.overflowing_sub(u64::from(borrow));
        *limb = value;
        borrow = under || under_again;
    }
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use ark_ff::{BigInteger, Field, UniformRand};
    use ark_std::test_rng;

    use super::*;

    fn bytes(value: Fr) -> Vec<u8> {
        value.into_bigint().to_bytes_le()
    }

    fn message(radix: Notation, text: &str) -> String {
        parse(radix, text, false).unwrap_err().to_string()
    }

    #[test]
    fn text_roundtrips() {
        let mut rng = test_rng();
        let values: Vec<_> = [0_u64, 1, 2]
            .map(Fr::from)
            .into_iter()
            .chain([-Fr::from(1), Fr::rand(&mut rng)])
            .collect();
        let canonical: Vec<_> = values.iter().flat_map(|&value| bytes(value)).collect();
        for radix in [Notation::Hex, Notation::Decimal] {
            let text = to_text(radix, &canonical);
            assert_eq!(text.lines().count(), values.len());
            assert_eq!(*parse(radix, &text, false).unwrap(), canonical);
        }
        assert_eq!(*parse(Notation::Decimal, "-1 -0\n-7", false).unwrap(), {
            [bytes(-Fr::from(1)), bytes(Fr::from(0)), bytes(-Fr::from(7))].concat()
        });
        // Digit groups that are full, empty, or end in zeros.
        let ten = Fr::from(10);
        for power in [1, 18, 19, 20, 38, 57, 76].map(|exponent| ten.pow([exponent])) {
            for value in [power - Fr::from(1), power, power + Fr::from(1)] {
                let text = to_text(Notation::Decimal, &bytes(value));
                assert_eq!(text.trim_end(), value.to_string());
            }
        }
    }

    #[test]
    fn errors_name_the_index_and_not_the_value() {
        let r = Fr::MODULUS.to_string();
        let over = "scalars[1]: not less than r (--reduce reduces it modulo r)";
        assert_eq!(message(Notation::Decimal, &format!("1\n{r}")), over);
        assert_eq!(message(Notation::Hex, &format!("1\n{}", "f".repeat(64))), over);
        assert_eq!(message(Notation::Hex, "12 0x3g"), "scalars[1]: expected 1 to 64 hex digits");
        assert_eq!(
            message(Notation::Hex, &"0".repeat(65)),
            "scalars[0]: expected 1 to 64 hex digits"
        );
        assert_eq!(message(Notation::Decimal, "1.5"), "scalars[0]: expected decimal digits");
        assert_eq!(message(Notation::Decimal, &format!("-{r}")), "scalars[0]: not greater than -r");
        assert_eq!(
            message(Notation::Decimal, &"9".repeat(78)),
            "scalars[0]: does not fit 256 bits"
        );
        let reduced = parse(Notation::Hex, &"f".repeat(64), true).unwrap();
        assert_eq!(*reduced, [0xff; 32]);
    }

    #[test]
    fn swaps_the_bytes_of_each_scalar() {
        let mut two = [[1_u8; 32], [2; 32]].concat();
        two[0] = 9;
        reverse_scalars(&mut two).unwrap();
        assert_eq!((two[0], two[31], two[32]), (1, 9, 2));
        assert!(reverse_scalars(&mut two[..33]).is_err());
    }
}
