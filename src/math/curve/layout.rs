//! The only module that relies on the memory layout of arkworks' types: it casts elements and
//! points to bytes and back without a copy. Casting any bytes of the right size to elements is
//! *memory-safe*; the caller must ensure that they are *valid* (below the modulus, on the curve).
#![allow(unsafe_code)]

use std::{
    mem::{align_of, offset_of, size_of},
    slice,
};

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::{Affine, Projective};
use ark_ff::BigInt;

use super::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};

// arkworks' types are not `repr(C)`, so this checks what the casts rely on: no padding, a field
// element is its limbs only, x before y, c0 before c1, and no infinity flag.
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
    assert!(size_of::<G1Projective>() == 144 && align_of::<G1Projective>() == align_of::<u64>());
    assert!(size_of::<G2Projective>() == 288 && align_of::<G2Projective>() == align_of::<u64>());
};

/// Types that consist of u64 limbs only.
///
/// # Safety
///
/// The type has no padding, and every bit pattern is a value.
pub unsafe trait LimbLayout: Copy {}

// SAFETY: asserted above.
unsafe impl LimbLayout for Fr {}
// SAFETY: asserted above.
unsafe impl LimbLayout for Affine<g1::Config> {}
// SAFETY: asserted above.
unsafe impl LimbLayout for Affine<g2::Config> {}
// SAFETY: three coordinates of limbs, and the size asserted above leaves no room for padding.
unsafe impl LimbLayout for Projective<g1::Config> {}
// SAFETY: as for G1.
unsafe impl LimbLayout for Projective<g2::Config> {}

/// The Montgomery limbs of `values`, 32 bytes each.
pub fn fr_as_bytes(values: &[Fr]) -> &[u8] {
    as_bytes(values)
}

/// The Montgomery limbs of `values`, 32 bytes each, as writable bytes. The writer keeps every
/// element below r, or checks the bytes with [`super::scalars::decode_fr`] before they are used.
pub fn fr_as_bytes_mut(values: &mut [Fr]) -> &mut [u8] {
    as_bytes_mut(values)
}

/// Casts Montgomery limbs to elements, without a check that they are below r. `None` if `bytes` is
/// not aligned to 8 bytes or is not a whole number of elements.
pub fn fr_from_bytes(bytes: &[u8]) -> Option<&[Fr]> {
    from_bytes(bytes)
}

/// The bytes of `points` in [`super::points::PointEncoding::Montgomery`].
pub fn points_as_bytes<A: LimbLayout>(points: &[A]) -> &[u8] {
    as_bytes(points)
}

/// The limbs of `points`, as [`points_as_bytes`] returns them, as writable bytes. The writer checks
/// the bytes before they are used as points.
pub fn points_as_bytes_mut<A: LimbLayout>(points: &mut [A]) -> &mut [u8] {
    as_bytes_mut(points)
}

/// Casts `bytes` to points in [`super::points::PointEncoding::Montgomery`], without a check of the
/// points. `None` if `bytes` is not aligned to 8 bytes or is not a whole number of points.
pub fn points_from_bytes<A: LimbLayout>(bytes: &[u8]) -> Option<&[A]> {
    from_bytes(bytes)
}

/// The limbs of sums as they are in memory, for another process of the same binary.
pub fn sums_as_bytes<S: LimbLayout>(sums: &[S]) -> &[u8] {
    as_bytes(sums)
}

/// A copy of the sums whose limbs [`sums_as_bytes`] returned; `None` if it is not a whole number.
pub fn sums_from_bytes<S: LimbLayout + Default>(bytes: &[u8]) -> Option<Vec<S>> {
    if !bytes.len().is_multiple_of(size_of::<S>()) {
        return None;
    }
    let mut sums = vec![S::default(); bytes.len() / size_of::<S>()];
    as_bytes_mut(&mut sums).copy_from_slice(bytes);
    Some(sums)
}

fn as_bytes<T: LimbLayout>(values: &[T]) -> &[u8] {
    // SAFETY: `LimbLayout` types have no padding, so all their bytes are initialised.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn as_bytes_mut<T: LimbLayout>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; any bytes are memory-safe values, and the borrow stays exclusive.
    unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

fn from_bytes<T: LimbLayout>(bytes: &[u8]) -> Option<&[T]> {
    let aligned = bytes.as_ptr().cast::<T>().is_aligned();
    if !aligned || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: alignment and length are checked above, and every bit pattern is a `LimbLayout`
    // value.
    Some(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}
