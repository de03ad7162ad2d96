//! The one place that relies on how arkworks lays its types out in memory: elements and points seen
//! as bytes and back, without a copy. Any bytes of the right size are *memory-safe* to see as
//! elements; that they are *valid* (below the modulus, on the curve) is the caller's business.
#![allow(unsafe_code)]

use std::{
    mem::{align_of, offset_of, size_of},
    slice,
};

use ark_bls12_381::{Fq, Fq2};
use ark_ff::BigInt;

use super::{Fr, G1Affine, G2Affine, points::CurvePoint};

// arkworks' types are not `repr(C)`. What the casts below need, checked where it is decided: no
// padding, limbs alone in a field, x before y, c0 before c1, and no flag beside the coordinates.
const _: () = {
    assert!(cfg!(target_endian = "little"));
    assert!(size_of::<BigInt<4>>() == 32 && offset_of!(BigInt<4>, 0) == 0);
    assert!(size_of::<Fr>() == 32 && align_of::<Fr>() == align_of::<u64>());
    assert!(offset_of!(Fr, 0) == 0);
    assert!(size_of::<Fq>() == 48 && align_of::<Fq>() == align_of::<u64>());
    assert!(offset_of!(Fq, 0) == 0);
    assert!(size_of::<Fq2>() == 96 && align_of::<Fq2>() == align_of::<u64>());
    assert!(offset_of!(Fq2, c0) == 0 && offset_of!(Fq2, c1) == 48);
    assert!(size_of::<G1Affine>() == 96 && align_of::<G1Affine>() == align_of::<u64>());
    assert!(offset_of!(G1Affine, x) == 0 && offset_of!(G1Affine, y) == 48);
    assert!(size_of::<G2Affine>() == 192 && align_of::<G2Affine>() == align_of::<u64>());
    assert!(offset_of!(G2Affine, x) == 0 && offset_of!(G2Affine, y) == 96);
};

/// The Montgomery limbs of `values`, 32 bytes each.
pub fn fr_as_bytes(values: &[Fr]) -> &[u8] {
    as_bytes(values)
}

/// The Montgomery limbs of `values`, 32 bytes each, to write. Whoever writes keeps every element
/// below r, or has the bytes checked by [`super::scalars::decode_fr`] before they are used.
pub fn fr_as_bytes_mut(values: &mut [Fr]) -> &mut [u8] {
    let bytes = size_of_val(values);
    // SAFETY: an Fr is four u64 without padding (asserted above): its bytes are initialised, and
    // any bytes written are an Fr as far as memory goes. The borrow stays exclusive.
    unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) }
}

/// `bytes` seen as Montgomery limbs; not checked to be below r. `None` where they are not aligned
/// to 8 bytes or not a multiple of 32.
pub fn fr_from_bytes(bytes: &[u8]) -> Option<&[Fr]> {
    from_bytes(bytes)
}

/// The points as [`super::points::PointEncoding::Montgomery`] writes them.
pub fn points_as_bytes<A: CurvePoint>(points: &[A]) -> &[u8] {
    as_bytes(points)
}

/// The limbs of `points`, as [`points_as_bytes`] shows them, to write. Whoever writes has the bytes
/// checked before they are used as points.
pub fn points_as_bytes_mut<A: CurvePoint>(points: &mut [A]) -> &mut [u8] {
    let bytes = size_of_val(points);
    // SAFETY: points are u64 limbs without padding (asserted above): their bytes are initialised,
    // and any bytes written are points as far as memory goes. The borrow stays exclusive.
    unsafe { slice::from_raw_parts_mut(points.as_mut_ptr().cast(), bytes) }
}

/// `bytes` seen as points in [`super::points::PointEncoding::Montgomery`]; nothing is checked of
/// the points themselves. `None` where the bytes are not aligned to 8 or not a whole number of
/// points.
pub fn points_from_bytes<A: CurvePoint>(bytes: &[u8]) -> Option<&[A]> {
    from_bytes(bytes)
}

/// Made of u64 limbs alone: no padding, and every bit pattern is a value.
trait Limbs: Copy {}

impl Limbs for Fr {}
// `CurvePoint` is sealed: G1Affine and G2Affine, whose layout is asserted above.
impl<A: CurvePoint> Limbs for A {}

fn as_bytes<T: Limbs>(values: &[T]) -> &[u8] {
    // SAFETY: `Limbs` types have no padding, so all their bytes are initialised.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn from_bytes<T: Limbs>(bytes: &[u8]) -> Option<&[T]> {
    let aligned = bytes.as_ptr().cast::<T>().is_aligned();
    if !aligned || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: aligned and whole (just checked), and every bit pattern is a `Limbs` value.
    Some(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}
