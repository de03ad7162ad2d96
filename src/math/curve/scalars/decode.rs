//! Encodes and decodes scalars. Decoding treats bytes as untrusted: a decoded element is below r.

use ark_ff::{BigInt, BigInteger, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{ScalarEncoding, Scalars};
use crate::{
    curve::{
        Fr,
        batch::{BadElement, check_batch, decode_batch, element_count},
        layout,
    },
    error::FieldProblem,
};

/// Scalars that one task decodes: about ten to a hundred microseconds of work.
const SCALARS_PER_TASK: usize = 4096;

impl Scalars {
    /// Converts `bytes` in place to magnitudes and signs. Runs in parallel on the current rayon
    /// pool. With `reduce`, integers of r and above are reduced modulo r.
    ///
    /// Shape: `bytes` holds a whole number of elements in `encoding`.
    /// Errors: the first bad element, with `NotCanonical` (r or above; never with `reduce`);
    /// `Length` if the last element is incomplete; `OutOfRange` if the encoding's width is
    /// unsupported.
    pub fn decode(
        encoding: ScalarEncoding,
        mut bytes: Zeroizing<Vec<u8>>,
        reduce: bool,
    ) -> Result<Self, BadElement> {
        let width = checked_width(encoding)?;
        let count = element_count(&bytes, width)?;
        let mut negative_signs = None;
        match encoding {
            ScalarEncoding::Unsigned(_) => {}
            ScalarEncoding::Canonical31
            | ScalarEncoding::Montgomery31
            | ScalarEncoding::PackedBits64
            | ScalarEncoding::Limbs32 => {
                unreachable!("they have no width here")
            }
            ScalarEncoding::Canonical => decode_full(&mut bytes, count, reduce, |value| value)?,
            ScalarEncoding::Montgomery => decode_full(&mut bytes, count, reduce, |value| {
                Fr::new_unchecked(value).into_bigint()
            })?,
            ScalarEncoding::Signed(_) => {
                let mut signs = Zeroizing::new(vec![false; count]);
                match width {
                    1 => decode_signed::<1>(&mut bytes, &mut signs)?,
                    2 => decode_signed::<2>(&mut bytes, &mut signs)?,
                    4 => decode_signed::<4>(&mut bytes, &mut signs)?,
                    8 => decode_signed::<8>(&mut bytes, &mut signs)?,
                    _ => decode_signed::<16>(&mut bytes, &mut signs)?,
                }
                negative_signs = signs.contains(&true).then_some(signs);
            }
        }
        Ok(Self { width, magnitudes: bytes, signs: negative_signs })
    }

    /// Returns the buffer given to [`Scalars::decode`] for reuse. It still holds the magnitudes.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.magnitudes
    }
}

/// Decodes elements of Fr. Runs in parallel on the current rayon pool. With `reduce`, integers of r
/// and above are reduced modulo r.
///
/// Shape: `bytes` has 32 bytes for each element of `out`.
/// Errors: the first bad element, with `NotCanonical`; `OutOfRange` if `encoding` is narrow. The
/// contents of `out` are then unspecified.
pub fn decode_fr(
    encoding: ScalarEncoding,
    bytes: &[u8],
    reduce: bool,
    out: &mut [Fr],
) -> Result<(), BadElement> {
    let convert: fn(BigInt<4>) -> Fr = match encoding {
        ScalarEncoding::Canonical => |value| Fr::from_bigint(value).expect("checked to be below r"),
        ScalarEncoding::Montgomery => Fr::new_unchecked,
        _ => return Err(BadElement { index: 0, problem: FieldProblem::OutOfRange }),
    };
    decode_batch(out, bytes, 32, SCALARS_PER_TASK, |bytes| {
        let bytes = bytes.try_into().expect("an element is 32 bytes");
        Ok(convert(check_or_reduce(read_limbs(bytes), reduce)?))
    })
}

/// Encodes elements of Fr. Runs in parallel on the current rayon pool.
///
/// Shape: `out` has 32 bytes for each element; `encoding` is not narrow.
pub fn encode_fr(encoding: ScalarEncoding, values: &[Fr], out: &mut [u8]) {
    assert!(encoding.is_full(), "narrow encodings do not hold every element");
    assert_eq!(out.len(), 32 * values.len(), "32 bytes per element");
    if encoding == ScalarEncoding::Montgomery {
        out.copy_from_slice(layout::fr_as_bytes(values));
        return;
    }
    out.par_chunks_mut(32 * SCALARS_PER_TASK).zip(values.par_chunks(SCALARS_PER_TASK)).for_each(
        |(out, values)| {
            for (out, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                write_limbs(value.into_bigint(), out);
            }
        },
    );
}

/// The width of one element; an error unless the protocol defines that encoding.
fn checked_width(encoding: ScalarEncoding) -> Result<usize, BadElement> {
    match encoding.width() {
        32 if encoding.is_full() => Ok(32),
        width @ (1 | 2 | 4 | 8 | 16) if encoding.is_integer() => Ok(width),
        _ => Err(BadElement { index: 0, problem: FieldProblem::OutOfRange }),
    }
}

/// Checks 32-byte elements and replaces each by `convert` of it, in place.
fn decode_full(
    bytes: &mut [u8],
    count: usize,
    reduce: bool,
    convert: impl Fn(BigInt<4>) -> BigInt<4> + Sync,
) -> Result<(), BadElement> {
    check_batch(bytes, &mut vec![(); count], SCALARS_PER_TASK, |element: &mut [u8; 32], _| {
        write_limbs(convert(check_or_reduce(read_limbs(element), reduce)?), element);
        Ok(())
    })
}

/// Converts two's complement to magnitudes in place; sets `signs[i]` if element i is negative.
fn decode_signed<const WIDTH: usize>(
    bytes: &mut [u8],
    signs: &mut [bool],
) -> Result<(), BadElement> {
    check_batch(bytes, signs, SCALARS_PER_TASK, |element: &mut [u8; WIDTH], sign| {
        *sign = element[WIDTH - 1] >= 0x80;
        if *sign {
            let mut wide = [0xff; 16];
            wide[..WIDTH].copy_from_slice(element);
            // The smallest value's magnitude needs the top bit, which magnitudes do not use as a
            // sign.
            let magnitude = i128::from_le_bytes(wide).unsigned_abs().to_le_bytes();
            element.copy_from_slice(&magnitude[..WIDTH]);
        }
        Ok(())
    })
}

fn read_limbs(bytes: &[u8; 32]) -> BigInt<4> {
    BigInt(bytemuck::cast::<_, [[u8; 8]; 4]>(*bytes).map(u64::from_le_bytes))
}

fn write_limbs(value: BigInt<4>, out: &mut [u8; 32]) {
    *out = bytemuck::cast(value.0.map(u64::to_le_bytes));
}

/// Returns `value` if it is below r; with `reduce`, `value` modulo r.
fn check_or_reduce(mut value: BigInt<4>, reduce: bool) -> Result<BigInt<4>, FieldProblem> {
    if !reduce && value >= Fr::MODULUS {
        return Err(FieldProblem::NotCanonical);
    }
    // At most two subtractions: 2^256 < 3r.
    while value >= Fr::MODULUS {
        value.sub_with_borrow(&Fr::MODULUS);
    }
    Ok(value)
}
