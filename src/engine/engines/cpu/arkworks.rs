//! The oracle's MSM, by arkworks. It shares no arithmetic with [`super::CpuEngine`]'s, which uses
//! blst.

use ark_ec::VariableBaseMSM;
use ark_ff::{BigInt, BigInteger, PrimeField, Zero};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, Group, points::CurvePoint, scalars::Scalars},
    engines::JobControl,
    error::Result,
};

/// Scalars that arkworks sums at once for each thread, which delays a cancellation by less than
/// 0.1 s: its MSM cannot be interrupted (`benches/experiments/cpu-engine.md`).
const fn thread_scalars(group: Group) -> usize {
    match group {
        Group::G1 => 1 << 12,
        Group::G2 => 1 << 10,
    }
}

/// Bytes for scalars as integers, and arkworks' own copies of a piece: indices, points, integers,
/// digits.
pub(super) fn scratch_bytes(group: Group, n: usize, threads: usize) -> u64 {
    let piece = n.min(threads.max(1) * thread_scalars(group));
    (n * 32 + piece * (8 + group.affine_bytes() + 32 + 64 * 8)) as u64
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
    control: &JobControl,
) -> Result<A::Group> {
    let piece = rayon::current_num_threads() * thread_scalars(A::GROUP);
    let integers = integers(scalars);
    let mut sum = A::Group::zero();
    for (bases, integers) in bases.chunks(piece).zip(integers.chunks(piece)) {
        control.check()?;
        sum += A::Group::msm_bigint(bases, integers);
    }
    Ok(sum)
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
