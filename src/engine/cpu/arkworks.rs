//! The oracle's MSM, by arkworks. It shares no arithmetic with [`super::CpuEngine`]'s, which uses
//! blst.

use ark_ec::VariableBaseMSM;
use ark_ff::{BigInt, BigInteger, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, Group, points::CurvePoint, scalars::Scalars},
    engine::JobControl,
    error::Result,
};

/// Bytes for scalars as integers, and arkworks' own copies: indices, points, integers, digits.
pub(super) fn scratch_bytes(group: Group, n: usize, _threads: usize) -> u64 {
    (n * (32 + 8 + group.affine_bytes() + 32 + 64 * 8)) as u64
}

/// Thread time of adding a point to a bucket, with the windows that the other engine would choose:
/// by the ratio of whole MSMs (`benches/experiments/cpu-engine.md`).
pub(super) const fn addition_ns(group: Group) -> f64 {
    match group {
        Group::G1 => 430.0,
        Group::G2 => 1400.0,
    }
}

pub(super) fn sum<A: CurvePoint>(
    bases: &[A],
    scalars: &Scalars,
    _: &JobControl,
) -> Result<A::Group> {
    Ok(A::Group::msm_bigint(bases, &integers(scalars)))
}

/// Scalars as integers modulo r.
fn integers(scalars: &Scalars) -> Zeroizing<Vec<BigInt<4>>> {
    let magnitudes = scalars.magnitudes().par_chunks(scalars.width());
    let integers = magnitudes.with_min_len(1024).enumerate().map(|(i, magnitude)| {
        let mut bytes = [0; 32];
        bytes[..magnitude.len()].copy_from_slice(magnitude);
        let mut integer = BigInt([0; 4]);
        for (limb, bytes) in integer.0.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        let negative = scalars.signs().is_some_and(|negative| negative[i]);
        if negative && !integer.is_zero() {
            let mut opposite = Fr::MODULUS;
            opposite.sub_with_borrow(&integer);
            integer = opposite;
        }
        integer
    });
    Zeroizing::new(integers.collect())
}
