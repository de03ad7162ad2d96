//! Polynomials by their coefficients, the lowest first.

use rayon::prelude::*;

use crate::{engines::JobControl, error::Result, field::Arithmetic};

/// Coefficients that one task evaluates.
const TASK_COEFFICIENTS: usize = 4096;

/// The value at `point`. Runs in parallel on the current rayon pool.
///
/// Errors: those of `control`.
pub fn evaluate<F: Arithmetic>(
    field: F,
    coefficients: &[F::Element],
    point: F::Element,
    control: &JobControl,
) -> Result<F::Element> {
    let pieces = coefficients.par_chunks(TASK_COEFFICIENTS).enumerate();
    let value = |(piece, coefficients): (usize, &[F::Element])| {
        control.check()?;
        let power = field.power(point, (piece * TASK_COEFFICIENTS) as u64);
        Ok(field.multiply(horner(field, coefficients, point), power))
    };
    pieces.map(value).try_reduce(F::Element::default, |a, b| Ok(field.add(a, b)))
}

/// The value at `point`, on this thread.
pub fn horner<F: Arithmetic>(
    field: F,
    coefficients: &[F::Element],
    point: F::Element,
) -> F::Element {
    let next = |value, coefficient: &_| field.add(field.multiply(value, point), *coefficient);
    coefficients.iter().rev().fold(F::Element::default(), next)
}
