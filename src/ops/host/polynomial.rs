//! Polynomials by their coefficients, the lowest first.

use ark_ff::{AdditiveGroup, Field};
use rayon::prelude::*;

use crate::curve::Fr;

/// Coefficients that one task evaluates.
const TASK_COEFFICIENTS: usize = 4096;

/// The value at `point`. Runs in parallel on the current rayon pool.
pub fn evaluate(coefficients: &[Fr], point: Fr) -> Fr {
    let pieces = coefficients.par_chunks(TASK_COEFFICIENTS).enumerate();
    let value = |(piece, coefficients): (usize, &[Fr])| {
        horner(coefficients, point) * point.pow([(piece * TASK_COEFFICIENTS) as u64])
    };
    pieces.map(value).reduce(|| Fr::ZERO, |a, b| a + b)
}

/// The value at `point`, on this thread.
pub fn horner(coefficients: &[Fr], point: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::ZERO, |value, coefficient| value * point + coefficient)
}
