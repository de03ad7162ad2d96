//! MSM on the CPU: Pippenger's algorithm in tiles.

use ark_ec::PrimeGroup;
use ark_ff::{PrimeField, Zero};
use parking_lot::Mutex;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    blst::{BlstTiles, DigitWindow, TileBuckets},
    msm_plan::{self, plan},
};
use crate::{
    curve::{Fr, Group, points::CurvePoint, scalars::Scalars},
    engines::JobControl,
    error::Result,
};

/// Maximum bytes copied at a time to handle negative scalars.
const COPY_BYTES_MAX: usize = 32 << 20;

/// Number of scalars whose points and magnitudes are copied at a time.
const fn copied_scalars_max(group: Group) -> usize {
    COPY_BYTES_MAX / (group.affine_bytes() + 32)
}

/// Bytes that an MSM of `n` scalars needs: copies, and buckets for every thread.
pub(super) fn scratch_bytes(group: Group, n: usize, threads: usize) -> u64 {
    let copies = n.min(copied_scalars_max(group)) * (group.affine_bytes() + 32);
    // A bucket has four coordinates.
    let buckets = msm_plan::buckets_in_flight(group, n, threads) * 4 * group.coordinate_bytes();
    (copies + buckets) as u64
}

/// Thread time of adding a point to a bucket (`benches/experiments/cpu-engine.md`).
pub(super) const fn addition_ns(group: Group) -> f64 {
    match group {
        Group::G1 => 330.0,
        Group::G2 => 920.0,
    }
}

/// `sum of scalars[i] * bases[i]`, on the current pool. Shape: equal lengths.
pub(super) fn sum<A: BlstTiles>(
    bases: &[A],
    scalars: &Scalars,
    control: &JobControl,
) -> Result<A::Group> {
    sum_copying(bases, scalars, copied_scalars_max(A::GROUP), control)
}

/// Like [`sum`], copying at most `step` points at a time.
fn sum_copying<A: BlstTiles>(
    bases: &[A],
    scalars: &Scalars,
    step: usize,
    control: &JobControl,
) -> Result<A::Group> {
    control.check()?;
    let (magnitudes, width) = (scalars.magnitudes(), scalars.width());
    let negative = scalars.signs();
    if negative.is_none() && (width != 32 || !is_mixed(magnitudes.as_chunks().0)) {
        return sum_unsigned(bases, magnitudes, width, control);
    }
    let mut sum = A::Group::zero();
    for (piece, bases) in bases.chunks(step).enumerate() {
        let first = piece * step;
        let magnitudes = &magnitudes[first * width..(first + bases.len()) * width];
        sum += match negative {
            Some(negative) => {
                let bases = negated(bases, |i| negative[first + i]);
                sum_unsigned(&bases, magnitudes, width, control)?
            }
            None => sum_mixed(bases, magnitudes, control)?,
        };
    }
    Ok(sum)
}

/// Like [`sum_unsigned`], for elements of Fr, of which those close below r count as negative.
fn sum_mixed<A: BlstTiles>(
    bases: &[A],
    magnitudes: &[u8],
    control: &JobControl,
) -> Result<A::Group> {
    let elements = magnitudes.as_chunks::<32>().0;
    let bases = negated(bases, |i| below_zero(&elements[i]).is_some());
    let mut magnitudes = Zeroizing::new(magnitudes.to_vec());
    magnitudes.as_chunks_mut().0.par_iter_mut().with_min_len(4096).for_each(|element| {
        if let Some(magnitude) = below_zero(element) {
            *element = [0; 32];
            element[..16].copy_from_slice(&magnitude.to_le_bytes());
        }
    });
    sum_unsigned(&bases, &magnitudes, 32, control)
}

/// A copy with some points negated. It reveals the signs, so it is zeroed like the scalars.
fn negated<A: CurvePoint>(
    bases: &[A],
    negative: impl Fn(usize) -> bool + Sync,
) -> Zeroizing<Vec<A>> {
    let mut signed = Zeroizing::new(bases.to_vec());
    signed.par_iter_mut().with_min_len(4096).enumerate().for_each(|(i, base)| {
        if negative(i) {
            *base = -*base;
        }
    });
    signed
}

/// True if enough elements are small negative numbers, such as the -1 of a witness, to copy all
/// points and negate some: an addition costs twenty copies (`benches/experiments/cpu-engine.md`).
fn is_mixed(elements: &[[u8; 32]]) -> bool {
    let negative = elements.par_iter().with_min_len(4096).filter(|e| below_zero(e).is_some());
    negative.count() * 16 > elements.len()
}

/// `r - element` if the element is close below r, that is, if it has the same upper half.
fn below_zero(element: &[u8; 32]) -> Option<u128> {
    let half = |limb: usize| {
        let limbs = Fr::MODULUS.0;
        u128::from(limbs[limb]) | u128::from(limbs[limb + 1]) << 64
    };
    let [low, high] = [0, 1].map(|i| u128::from_le_bytes(element.as_chunks().0[i]));
    (high == half(2)).then(|| half(0) - low)
}

/// Like [`sum`], for magnitudes of `width` bytes each.
fn sum_unsigned<A: BlstTiles>(
    bases: &[A],
    magnitudes: &[u8],
    width: usize,
    control: &JobControl,
) -> Result<A::Group> {
    let bits = magnitude_bits(magnitudes, width);
    match bases {
        _ if bits == 0 => return Ok(A::Group::zero()),
        [base] => return Ok(multiply_single(base, magnitudes)),
        _ => {}
    }
    let plan = plan(A::GROUP, bases.len(), bits, rayon::current_num_threads());
    let scratch = Mutex::new(Vec::<TileBuckets>::new());
    let sums = plan
        .tiles
        .par_iter()
        .with_max_len(1)
        .map(|tile| {
            control.check()?;
            let mut buckets = scratch.lock().pop().unwrap_or_default();
            let range = tile.first..tile.first + tile.len;
            let scalars = &magnitudes[range.start * width..range.end * width];
            let window =
                DigitWindow { scalar_bits: 8 * width, bit: tile.bit, bits: plan.window_bits };
            let sum = A::tile(&bases[range], scalars, window, &mut buckets);
            scratch.lock().push(buckets);
            Ok(sum)
        })
        .collect::<Result<Vec<_>>>()?;
    // Horner's rule, the highest window first.
    let mut sum = A::Sum::default();
    let mut bit = plan.tiles.first().map_or(0, |tile| tile.bit);
    for (tile, tile_sum) in plan.tiles.iter().zip(&sums) {
        A::double_sum(&mut sum, bit - tile.bit);
        A::add_sum(&mut sum, tile_sum);
        bit = tile.bit;
    }
    Ok(A::group(&sum))
}

/// A single point, too few for a tile.
fn multiply_single<A: CurvePoint>(base: &A, magnitude: &[u8]) -> A::Group {
    let mut limbs = Zeroizing::new([0u64; 4]);
    for (i, &byte) in magnitude.iter().enumerate() {
        limbs[i / 8] |= u64::from(byte) << (8 * (i % 8));
    }
    // In projective form arkworks splits the scalar in two (GLV).
    base.into_group().mul_bigint(*limbs)
}

/// Bits of the greatest magnitude: higher windows are empty.
fn magnitude_bits(magnitudes: &[u8], width: usize) -> usize {
    // The bitwise union of all magnitudes has the same highest bit as the greatest one.
    let union = magnitudes
        .par_chunks(width << 14)
        .map(|piece| {
            let mut union = [0u8; 32];
            for magnitude in piece.chunks_exact(width) {
                for (union, byte) in union.iter_mut().zip(magnitude) {
                    *union |= byte;
                }
            }
            union
        })
        .reduce(|| [0; 32], |a, b| std::array::from_fn(|i| a[i] | b[i]));
    let top = union.iter().rposition(|&byte| byte != 0);
    top.map_or(0, |top| 8 * top + 8 - union[top].leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use ark_ec::{CurveGroup, VariableBaseMSM};

    use super::*;
    use crate::curve::{
        G1Affine, G1Projective,
        scalars::{ScalarEncoding, encode_fr},
    };

    #[test]
    fn signs_stay_with_their_points_across_copies() {
        let generator = G1Projective::generator();
        let walk: Vec<_> = (1..=50u64).map(|i| generator * Fr::from(i * i)).collect();
        let bases = G1Projective::normalize_batch(&walk);
        let integers: Vec<i64> = (0..50).map(|i| (i * 7919 % 101 - 50) << (i % 40)).collect();
        let values: Vec<Fr> = integers.iter().map(|&i| Fr::from(i)).collect();
        let right = G1Projective::msm(&bases, &values).expect("equal lengths");
        let bytes = integers.iter().flat_map(|i| i.to_le_bytes()).collect();
        let narrow = Scalars::decode(ScalarEncoding::Signed(8), Zeroizing::new(bytes), false);
        let mut bytes = Zeroizing::new(vec![0; 32 * values.len()]);
        encode_fr(ScalarEncoding::Canonical, &values, &mut bytes);
        let full = Scalars::decode(ScalarEncoding::Canonical, bytes, false);
        for scalars in [narrow, full].map(|scalars| scalars.expect("encoded integers")) {
            for step in [1, 2, 7, 49, 50, 51] {
                let sum = sum_copying::<G1Affine>(&bases, &scalars, step, &JobControl::default());
                assert_eq!(sum, Ok(right));
            }
        }
    }
}
