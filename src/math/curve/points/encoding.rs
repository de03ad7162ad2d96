//! Encodes and decodes points and sums. Decoding treats bytes as untrusted: what it returns is
//! canonical and on the curve, points also in the subgroup.

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::Zero;
use rayon::prelude::*;

use super::{
    CurvePoint, MsmSums,
    codec::{PointEncoding, SumEncoding},
};
use crate::curve::{
    G1Affine, G2Affine,
    batch::{BadElement, decode_batch, element_count},
    layout,
};

/// Points that one task checks: a few hundred microseconds of work.
const POINTS_PER_TASK: usize = 4;

/// Sums that one task checks if that takes neither a square root nor an inversion: about a
/// microsecond each, while waking the threads of a pool takes a hundred.
const PROJECTIVE_PER_TASK: usize = 256;

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
    out.par_chunks_mut(width).with_min_len(64).zip(points).for_each(|(out, point)| {
        let written = match compressed {
            true => point.serialize_compressed(out),
            false => point.serialize_uncompressed(out),
        };
        written.expect("the buffer is as long as the encoding");
    });
    out
}

/// Encodes sums for [`decode_sums`]. Runs in parallel on the current rayon pool.
pub fn encode_sums(encoding: SumEncoding, sums: &MsmSums) -> Vec<u8> {
    match sums {
        MsmSums::G1(sums) => encode_group_sums::<G1Affine>(encoding, sums),
        MsmSums::G2(sums) => encode_group_sums::<G2Affine>(encoding, sums),
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

/// Decodes sums, and checks that they are on the curve. It does not check that they are in the
/// subgroup, which would take .13 ms (`benches/experiments/transport.md`): sums of checked bases
/// are, and a server that lies could return any point of it. Runs in parallel on the current rayon
/// pool.
///
/// Shape: `bytes` holds a whole number of points in `encoding`.
/// Errors: like [`decode`], except `NotInSubgroup`.
pub fn decode_sums<A: CurvePoint>(
    encoding: SumEncoding,
    bytes: &[u8],
) -> Result<Vec<A::Group>, BadElement> {
    let width = encoding.point_bytes(A::GROUP);
    let mut sums = vec![A::Group::zero(); element_count(bytes, width)?];
    let point =
        |encoding, bytes: &[u8]| A::read_on_curve(encoding, bytes).map(AffineRepr::into_group);
    let per_task = match encoding {
        SumEncoding::Projective => PROJECTIVE_PER_TASK,
        SumEncoding::Compressed | SumEncoding::Uncompressed => POINTS_PER_TASK,
    };
    decode_batch(&mut sums, bytes, width, per_task, |bytes| match encoding {
        SumEncoding::Compressed => point(PointEncoding::Compressed, bytes),
        SumEncoding::Uncompressed => point(PointEncoding::Uncompressed, bytes),
        SumEncoding::Projective => A::read_projective(bytes),
    })?;
    Ok(sums)
}
