//! Products with a short factor, coefficient by coefficient.

use rayon::prelude::*;

use crate::{
    engines::JobControl,
    error::Result,
    field::{Arithmetic, FieldId},
    operation::ProductSizes,
};

/// Coefficients of the product per task.
const TASK_COEFFICIENTS: usize = 2048;

/// Butterflies of a transform that take as long as one product of coefficients, in percent
/// (`benches/experiments/cpu-engine.md`).
const fn butterflies_percent(field: FieldId) -> u64 {
    if matches!(field, FieldId::Bls12381Fr) { 70 } else { 25 }
}

/// Whether products of these sizes take less time coefficient by coefficient than by three
/// transforms.
pub(super) fn is_short(sizes: &ProductSizes) -> bool {
    let Some(lg_n) = sizes.lg_transform() else { return false };
    let butterflies = (3 * (u64::from(lg_n) + 1)) << lg_n >> 1;
    let products = sizes.a.saturating_mul(sizes.b);
    products.saturating_mul(butterflies_percent(sizes.field)) <= 100 * butterflies
}

/// Adds the product of `a` and `b` to `out`, which has as many coefficients as the product.
///
/// Errors: those of `control`.
pub(super) fn add_product<F: Arithmetic>(
    field: F,
    a: &[F::Element],
    b: &[F::Element],
    out: &mut [F::Element],
    control: &JobControl,
) -> Result<()> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let tasks = out.par_chunks_mut(TASK_COEFFICIENTS).enumerate();
    tasks.try_for_each(|(task, out)| {
        control.check()?;
        let first = task * TASK_COEFFICIENTS;
        for (shift, factor) in short.iter().enumerate() {
            // `long[from]` is the first one whose product belongs to the task, after `skipped`.
            let from = first.saturating_sub(shift);
            let skipped = shift.saturating_sub(first).min(out.len());
            let coefficients = long.get(from..).unwrap_or_default();
            for (out, coefficient) in out[skipped..].iter_mut().zip(coefficients) {
                *out = field.add(*out, field.multiply(*coefficient, *factor));
            }
        }
        Ok(())
    })
}
