//! Inputs of the self-test whose results the host computes quickly.

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field};

use crate::curve::{Fr, points::CurvePoint};

/// Pseudorandom elements, the same every time.
pub fn numbers(count: usize) -> Vec<Fr> {
    let first = Fr::GENERATOR.pow([0xca95_7a11]);
    let next = |last: &Fr| Some(last.square() + Fr::GENERATOR);
    std::iter::successors(Some(first), next).take(count).collect()
}

/// The most points that the host computes; more would take it too long.
pub const DISTINCT_MAX: usize = 1 << 12;

/// Points 1, 2, 3 ... times the generator: the host gets the sum with a single multiplication. They
/// repeat after `DISTINCT_MAX` points.
pub fn multiples<A: CurvePoint>(count: usize) -> Vec<A> {
    let one = A::generator().into_group();
    let sums = std::iter::successors(Some(one), |sum| Some(*sum + one));
    let sums: Vec<_> = sums.take(count.min(DISTINCT_MAX)).collect();
    let distinct = A::Group::normalize_batch(&sums);
    distinct.iter().copied().cycle().take(count).collect()
}
