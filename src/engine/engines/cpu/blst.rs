//! blst's inner loop of Pippenger's algorithm on arkworks' points, without a copy. The only place
//! in the engine that calls C; its preconditions are asserted.
//!
//! blst's own `MultiPoint` is not used: it runs on a hidden global pool, ignores cancellation, and
//! its path for fewer than 32 points does not handle infinity.
#![allow(unsafe_code)]

use std::mem::{align_of, offset_of, size_of};

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::{Affine, Projective};
use ark_ff::BigInt;
use blst::{blst_fp, blst_fp2, blst_p1, blst_p1_affine, blst_p2, blst_p2_affine};

use crate::curve::{G1Affine, G2Affine, points::CurvePoint};

/// Widest window of blst's digit reader, which reads 25 bits at any bit offset.
pub(super) const WINDOW_BITS_MAX: usize = 18;

/// The digit that a tile sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct DigitWindow {
    /// Bits of a stored scalar; it takes that many bits rounded up to bytes.
    pub(super) scalar_bits: usize,
    pub(super) bit: usize,
    /// The digit's width; smaller if the scalar ends before.
    pub(super) bits: usize,
}

/// Buckets that are reused from tile to tile; all zero in between.
#[derive(Debug, Default)]
pub(super) struct TileBuckets(Vec<u64>);

/// A group whose tiles blst can sum.
pub(super) trait BlstTiles: CurvePoint {
    /// A partial sum in blst's coordinates.
    type Sum: Copy + Send + Sync + Default;

    fn bucket_bytes() -> usize;

    /// `sum of digit(scalars[i]) * points[i]`, not yet shifted by the window's position. Points may
    /// be infinity, equal or opposite; digits may be zero.
    ///
    /// Shape: at least 2 points, a scalar for each, the window inside the scalar or at its end.
    fn tile(
        points: &[Self],
        scalars: &[u8],
        window: DigitWindow,
        buckets: &mut TileBuckets,
    ) -> Self::Sum;

    fn add_sum(sum: &mut Self::Sum, other: &Self::Sum);

    /// `sum *= 2^times`.
    fn double_sum(sum: &mut Self::Sum, times: usize);

    fn group(sum: &Self::Sum) -> Self::Group;
}

// blst reads arkworks' points in place: same limbs in the same order (Montgomery, radix 2^384), and
// infinity is all zeros in both. `curve::layout` asserts arkworks' side.
const _: () = {
    assert!(size_of::<blst::limb_t>() == 8);
    assert!(size_of::<blst_p1_affine>() == size_of::<G1Affine>());
    assert!(align_of::<blst_p1_affine>() == align_of::<G1Affine>());
    assert!(offset_of!(blst_p1_affine, x) == 0 && offset_of!(blst_p1_affine, y) == 48);
    assert!(offset_of!(G1Affine, x) == 0 && offset_of!(G1Affine, y) == 48);
    assert!(size_of::<blst_p2_affine>() == size_of::<G2Affine>());
    assert!(align_of::<blst_p2_affine>() == align_of::<G2Affine>());
    assert!(offset_of!(blst_p2_affine, x) == 0 && offset_of!(blst_p2_affine, y) == 96);
    assert!(offset_of!(G2Affine, x) == 0 && offset_of!(G2Affine, y) == 96);
};

fn fq(value: &blst_fp) -> Fq {
    Fq::new_unchecked(BigInt(value.l))
}

fn fq2(value: &blst_fp2) -> Fq2 {
    Fq2::new(fq(&value.fp[0]), fq(&value.fp[1]))
}

macro_rules! tiles {
    (
        $config:ty, $field:ident, $blst_affine:ty, $blst_sum:ty, $scratch:ident, $tile:ident,
        $add:ident, $double:ident
    ) => {
        impl BlstTiles for Affine<$config> {
            type Sum = $blst_sum;

            fn bucket_bytes() -> usize {
                // SAFETY: a pure function. For no points it returns the size for a window of one
                // bit, which is one bucket.
                unsafe { blst::$scratch(0) }
            }

            fn tile(
                points: &[Self],
                scalars: &[u8],
                window: DigitWindow,
                buckets: &mut TileBuckets,
            ) -> Self::Sum {
                // blst's loop looks one point ahead and would count a single point twice.
                assert!(points.len() >= 2, "a tile needs at least two points");
                assert_eq!(scalars.len(), points.len() * window.scalar_bits.div_ceil(8));
                assert!((1..=WINDOW_BITS_MAX).contains(&window.bits));
                assert!(window.scalar_bits > 0 && window.bit <= window.scalar_bits);
                let limbs = (1 << (window.bits - 1)) * Self::bucket_bytes() / 8;
                if buckets.0.len() < limbs {
                    buckets.0.resize(limbs, 0);
                }
                // One run of points and one of scalars: a null pointer ends each list.
                let point_runs: [*const $blst_affine; 2] =
                    [points.as_ptr().cast(), std::ptr::null()];
                let scalar_runs: [*const u8; 2] = [scalars.as_ptr(), std::ptr::null()];
                let mut sum = Self::Sum::default();
                // SAFETY: the layouts are equal (asserted above), so `points` are `len` readable
                // blst points; `scalars` has one scalar of `scalar_bytes` for each (asserted); the
                // callee reads no digit beyond `scalar_bits`; `buckets` has one bucket for every
                // digit from 1 to 2^(bits - 1), all zero: at first by `resize`, later because the
                // callee zeroes what it used.
                unsafe {
                    blst::$tile(
                        &mut sum,
                        point_runs.as_ptr(),
                        points.len(),
                        scalar_runs.as_ptr(),
                        window.scalar_bits,
                        buckets.0.as_mut_ptr(),
                        window.bit,
                        window.bits,
                    );
                }
                sum
            }

            fn add_sum(sum: &mut Self::Sum, other: &Self::Sum) {
                let sum: *mut _ = sum;
                // SAFETY: valid points; blst allows the output to be an input.
                unsafe { blst::$add(sum, sum, other) }
            }

            fn double_sum(sum: &mut Self::Sum, times: usize) {
                let sum: *mut _ = sum;
                for _ in 0..times {
                    // SAFETY: a valid point; blst allows the output to be the input.
                    unsafe { blst::$double(sum, sum) }
                }
            }

            fn group(sum: &Self::Sum) -> Self::Group {
                Projective::new_unchecked($field(&sum.x), $field(&sum.y), $field(&sum.z))
            }
        }
    };
}

// By the curve's config: rustc cannot tell that the aliases G1Affine and G2Affine differ.
tiles!(
    g1::Config,
    fq,
    blst_p1_affine,
    blst_p1,
    blst_p1s_mult_pippenger_scratch_sizeof,
    blst_p1s_tile_pippenger,
    blst_p1_add_or_double,
    blst_p1_double
);
tiles!(
    g2::Config,
    fq2,
    blst_p2_affine,
    blst_p2,
    blst_p2s_mult_pippenger_scratch_sizeof,
    blst_p2s_tile_pippenger,
    blst_p2_add_or_double,
    blst_p2_double
);
