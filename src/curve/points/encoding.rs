//! Encodes and decodes points. Decoding treats bytes as untrusted: a decoded point is canonical, on
//! the curve and in the subgroup.

use ark_ec::{
    AffineRepr, CurveGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{Field, Zero};
use rayon::prelude::*;

use super::{
    BadElement, CurvePoint, MsmSums, PointEncoding, SumEncoding, coordinate::EncodedCoordinate,
};
use crate::{
    curve::{batch::decode_batch, layout},
    error::FieldProblem,
};

// The flags of Zcash's format, in the first byte.
const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const GREATER_Y: u8 = 0x20;
const FLAGS: u8 = COMPRESSED | INFINITY | GREATER_Y;

/// Points that one task checks: a few hundred microseconds of work.
const POINTS_PER_TASK: usize = 4;

/// Decodes and checks points. Runs in parallel on the current rayon pool.
///
/// Shape: `bytes` holds a whole number of points in `encoding`.
/// Errors: the first bad point, with `NotCanonical` (a coordinate is not below p), `NotOnCurve`,
/// `NotInSubgroup`, `BadInfinity` (infinity in a form that the format forbids) or `BadEncoding`
/// (flags of another format); `Length` if the last point is incomplete.
pub fn decode<A: CurvePoint>(encoding: PointEncoding, bytes: &[u8]) -> Result<Vec<A>, BadElement> {
    let width = encoding.point_bytes(A::GROUP);
    let mut points = vec![A::zero(); element_count(bytes, width)?];
    decode_batch(&mut points, bytes, width, POINTS_PER_TASK, |bytes| A::read(encoding, bytes))?;
    Ok(points)
}

/// Encodes points for [`decode`]. Runs in parallel on the current rayon pool.
pub fn encode<A: CurvePoint>(encoding: PointEncoding, points: &[A]) -> Vec<u8> {
    let compressed = match encoding {
        PointEncoding::Montgomery => return layout::points_as_bytes(points).to_vec(),
        PointEncoding::Compressed => true,
        PointEncoding::Uncompressed => false,
    };
    let width = encoding.point_bytes(A::GROUP);
    let mut out = vec![0; points.len() * width];
    out.par_chunks_mut(width)
        .with_min_len(64)
        .zip(points)
        .for_each(|(out, point)| write(out, point, compressed));
    out
}

/// Encodes sums for [`decode_sums`]. Runs in parallel on the current rayon pool.
pub fn encode_sums(encoding: SumEncoding, sums: &MsmSums) -> Vec<u8> {
    match sums {
        MsmSums::G1(sums) => encode_group_sums::<super::G1Affine>(encoding, sums),
        MsmSums::G2(sums) => encode_group_sums::<super::G2Affine>(encoding, sums),
    }
}

fn encode_group_sums<A: CurvePoint>(encoding: SumEncoding, sums: &[A::Group]) -> Vec<u8> {
    let affine = |encoding| encode(encoding, &A::Group::normalize_batch(sums));
    match encoding {
        SumEncoding::Compressed => affine(PointEncoding::Compressed),
        SumEncoding::Uncompressed => affine(PointEncoding::Uncompressed),
        SumEncoding::Projective => {
            let width = encoding.point_bytes(A::GROUP);
            let mut out = vec![0; sums.len() * width];
            for (out, sum) in out.chunks_exact_mut(width).zip(sums) {
                A::write_projective(sum, out);
            }
            out
        }
    }
}

/// Decodes and checks sums. Runs in parallel on the current rayon pool.
///
/// Shape: `bytes` holds a whole number of points in `encoding`.
/// Errors: like [`decode`].
pub fn decode_sums<A: CurvePoint>(
    encoding: SumEncoding,
    bytes: &[u8],
) -> Result<Vec<A::Group>, BadElement> {
    let width = encoding.point_bytes(A::GROUP);
    let mut sums = vec![A::Group::zero(); element_count(bytes, width)?];
    decode_batch(&mut sums, bytes, width, POINTS_PER_TASK, |bytes| match encoding {
        SumEncoding::Compressed => {
            A::read(PointEncoding::Compressed, bytes).map(AffineRepr::into_group)
        }
        SumEncoding::Uncompressed => {
            A::read(PointEncoding::Uncompressed, bytes).map(AffineRepr::into_group)
        }
        SumEncoding::Projective => A::read_projective(bytes),
    })?;
    Ok(sums)
}

/// The number of `width`-byte elements in `bytes`; `Length` if the last one is incomplete.
pub(in crate::curve) fn element_count(bytes: &[u8], width: usize) -> Result<usize, BadElement> {
    let count = bytes.len() / width;
    if bytes.len().is_multiple_of(width) {
        return Ok(count);
    }
    let expected = ((count + 1) * width) as u64;
    let problem = FieldProblem::Length { expected, got: bytes.len() as u64 };
    Err(BadElement { index: count as u64, problem })
}

fn write<A: CurvePoint>(out: &mut [u8], point: &A, compressed: bool) {
    let written = match compressed {
        true => point.serialize_compressed(out),
        false => point.serialize_uncompressed(out),
    };
    written.expect("the buffer is as long as the encoding");
}

/// Decodes and checks one point.
pub(super) fn read<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    encoding: PointEncoding,
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    let point = match encoding {
        PointEncoding::Compressed => read_compressed(bytes),
        PointEncoding::Uncompressed => read_uncompressed(bytes),
        PointEncoding::Montgomery => read_montgomery(bytes),
    }?;
    check_subgroup(point)
}

/// Shape: `point` is on the curve.
pub(super) fn check_subgroup<P: SWCurveConfig>(
    point: Affine<P>,
) -> Result<Affine<P>, FieldProblem> {
    let inside = point.is_zero() || P::is_in_correct_subgroup_assuming_on_curve(&point);
    if inside { Ok(point) } else { Err(FieldProblem::NotInSubgroup) }
}

/// Infinity is the flag byte `first`, then zeros.
fn read_infinity<P: SWCurveConfig>(bytes: &[u8], first: u8) -> Result<Affine<P>, FieldProblem> {
    let rest_zero = bytes[1..].iter().all(|&byte| byte == 0);
    if bytes[0] == first && rest_zero { Ok(Affine::zero()) } else { Err(FieldProblem::BadInfinity) }
}

fn read_compressed<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    if bytes[0] & COMPRESSED == 0 {
        return Err(FieldProblem::BadEncoding);
    }
    if bytes[0] & INFINITY != 0 {
        return read_infinity(bytes, COMPRESSED | INFINITY);
    }
    let x = read_flagged(bytes)?;
    let (smaller, greater) =
        Affine::<P>::get_ys_from_x_unchecked(x).ok_or(FieldProblem::NotOnCurve)?;
    let y = if bytes[0] & GREATER_Y == 0 { smaller } else { greater };
    Ok(Affine::new_unchecked(x, y))
}

fn read_uncompressed<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    if bytes[0] & COMPRESSED != 0 {
        return Err(FieldProblem::BadEncoding);
    }
    if bytes[0] & INFINITY != 0 {
        return read_infinity(bytes, INFINITY);
    }
    if bytes[0] & GREATER_Y != 0 {
        return Err(FieldProblem::BadEncoding);
    }
    let (x, y) = bytes.split_at(bytes.len() / 2);
    let y = EncodedCoordinate::read_canonical(y).ok_or(FieldProblem::NotCanonical)?;
    let x = read_flagged(x)?;
    if P::BaseField::is_zero(&x) && P::BaseField::is_zero(&y) {
        // arkworks treats (0, 0) as infinity, which this format marks with a flag.
        return Err(FieldProblem::BadInfinity);
    }
    check_on_curve(x, y)
}

fn read_montgomery<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    let (x, y) = bytes.split_at(bytes.len() / 2);
    let x: P::BaseField =
        EncodedCoordinate::read_montgomery(x).ok_or(FieldProblem::NotCanonical)?;
    let y: P::BaseField =
        EncodedCoordinate::read_montgomery(y).ok_or(FieldProblem::NotCanonical)?;
    if x.is_zero() && y.is_zero() { Ok(Affine::zero()) } else { check_on_curve(x, y) }
}

/// Reads Jacobian coordinates in Montgomery limbs, checked.
pub(super) fn read_projective<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Projective<P>, FieldProblem> {
    let third = bytes.len() / 3;
    let [x, y, z]: [Option<P::BaseField>; 3] =
        [0, 1, 2].map(|i| EncodedCoordinate::read_montgomery(&bytes[i * third..][..third]));
    let x = x.ok_or(FieldProblem::NotCanonical)?;
    let y = y.ok_or(FieldProblem::NotCanonical)?;
    let z = z.ok_or(FieldProblem::NotCanonical)?;
    let Some(inverse) = z.inverse() else {
        return Ok(Projective::zero());
    };
    let inverse_square = inverse.square();
    let point = check_on_curve(x * inverse_square, y * inverse_square * inverse)?;
    check_subgroup::<P>(point).map(|_| Projective::new_unchecked(x, y, z))
}

/// Writes the form that [`read_projective`] reads.
pub(super) fn write_projective<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    point: &Projective<P>,
    out: &mut [u8],
) {
    let third = out.len() / 3;
    for (coordinate, out) in [point.x, point.y, point.z].iter().zip(out.chunks_exact_mut(third)) {
        coordinate.write_montgomery(out);
    }
}

/// Reads a big-endian coordinate whose first byte holds flags.
fn read_flagged<F: EncodedCoordinate>(bytes: &[u8]) -> Result<F, FieldProblem> {
    let mut plain = [0; 96];
    let plain = &mut plain[..bytes.len()];
    plain.copy_from_slice(bytes);
    plain[0] &= !FLAGS;
    F::read_canonical(plain).ok_or(FieldProblem::NotCanonical)
}

/// Checks y^2 = x^3 + b. It rejects (0, 0), which arkworks' own check accepts as infinity.
pub(super) fn check_on_curve<P: SWCurveConfig>(
    x: P::BaseField,
    y: P::BaseField,
) -> Result<Affine<P>, FieldProblem> {
    if y.square() == x.square() * x + P::COEFF_B {
        Ok(Affine::new_unchecked(x, y))
    } else {
        Err(FieldProblem::NotOnCurve)
    }
}
