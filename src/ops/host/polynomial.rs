//! Polynomials by their coefficients, the lowest first.

use ark_ff::{AdditiveGroup, Field};
use rayon::prelude::*;

use crate::{curve::Fr, engine::JobControl, error::Result};

/// Coefficients that one task evaluates.
const TASK_COEFFICIENTS: usize = 4096;

/// The value at `point`. Runs in parallel on the current rayon pool.
///
/// Errors: those of `control`.
pub fn evaluate(coefficients: &[Fr], point: Fr, control: &JobControl) -> Result<Fr> {
    let pieces = coefficients.par_chunks(TASK_COEFFICIENTS).enumerate();
    let value = |(piece, coefficients): (usize, &[Fr])| {
        control.check()?;
        Ok(horner(coefficients, point) * point.pow([(piece * TASK_COEFFICIENTS) as u64]))
    };
    pieces.map(value).try_reduce(|| Fr::ZERO, |a, b| Ok(a + b))
}

/// The value at `point`, on this thread.
pub fn horner(coefficients: &[Fr], point: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::ZERO, |value, coefficient| value * point + coefficient)
}
