//! NTTs over fields of prime order below 2^31, on the current rayon pool. Rows of up to 2^15
//! elements are transformed by one thread each; of longer ones, the outer stages by all threads.

mod order;
mod stages;
mod twiddles;

use rayon::prelude::*;

use self::{
    order::{Powers, reverse_order, scale_by_powers},
    stages::{LG_THREAD, dif, dit},
    twiddles::Twiddles,
};
use crate::{
    curve::Decimation,
    engines::{JobControl, NttPlan},
    error::{Error, FieldProblem, Result},
    field::{Arithmetic, Element31, Field31, VectorElements},
};

/// Whether each thread transforms its own row of 2^`lg_n` elements.
pub(super) const fn is_row_per_thread(lg_n: u32) -> bool {
    lg_n <= LG_THREAD
}

/// Bytes that a transform needs in addition to its rows: twiddle factors, and a copy for bit
/// reversal.
pub(super) fn scratch_bytes(lg_n: u32, threads: usize) -> u64 {
    let rows = if is_row_per_thread(lg_n) { threads as u64 } else { 1 };
    ((1 + rows) * size_of::<Element31>() as u64) << lg_n
}

/// Transforms each row in place.
///
/// Errors: `Invalid` for a length above the field's two-adicity, or a coset generator of zero;
/// `Internal` for rows of another length; those of `control`.
pub(super) fn transform(
    field: Field31,
    plan: &NttPlan<Element31>,
    rows: &mut [Vec<Element31>],
    decimation: Decimation,
    control: &JobControl,
) -> Result<()> {
    let ntt = Ntt31::new(field, plan, decimation, control)?;
    if rows.iter().any(|row| row.len() != 1 << plan.lg_n) {
        return Err(Error::Internal("a row's length differs from the plan's".into()));
    }
    match is_row_per_thread(plan.lg_n) {
        true => rows.par_iter_mut().try_for_each(|row| ntt.transform(row, control)),
        false => rows.iter_mut().try_for_each(|row| ntt.transform(row, control)),
    }
}

/// What the transforms of all rows have in common.
struct Ntt31<'a> {
    field: Field31,
    plan: &'a NttPlan<Element31>,
    decimation: Decimation,
    twiddles: Twiddles,
    /// Factors before the transform: those of the coset.
    before: Option<Powers>,
    /// Factors after the transform: 1/n, and those of the coset.
    after: Option<Powers>,
}

impl<'a> Ntt31<'a> {
    fn new(
        field: Field31,
        plan: &'a NttPlan<Element31>,
        decimation: Decimation,
        control: &JobControl,
    ) -> Result<Self> {
        let max = field.id().two_adicity();
        let too_large = Error::field("lg_n", FieldProblem::TooLarge { max: max.into() });
        let root = field.root_of_unity(plan.lg_n).ok_or(too_large)?;
        let invert =
            |element| field.inverse(element).ok_or(Error::field("coset", FieldProblem::Zero));
        let root = if plan.inverse { invert(root)? } else { root };
        let (mut before, mut after) = (None, None);
        if plan.inverse {
            let first = invert(field.element(1 << plan.lg_n))?;
            after = Some(Powers { first, base: plan.coset.map_or(Ok(field.one()), invert)? });
        } else {
            before = plan.coset.map(|base| Powers { first: field.one(), base });
        }
        let twiddles = Twiddles::new(field, root, plan.lg_n, control)?;
        Ok(Self { field, plan, decimation, twiddles, before, after })
    }

    fn transform(&self, row: &mut [Element31], control: &JobControl) -> Result<()> {
        control.check()?;
        let &Self { field, plan, decimation, ref twiddles, .. } = self;
        if let Some(powers) = &self.before {
            scale_by_powers(field, row, powers, plan.input_reversed, control)?;
        }
        let needs_reversed = decimation == Decimation::Dit;
        if plan.input_reversed != needs_reversed {
            reverse_order(row, control)?;
        }
        match decimation {
            Decimation::Dif => dif(field, row, twiddles, control)?,
            Decimation::Dit => dit(field, row, twiddles, control)?,
        }
        if plan.output_reversed == needs_reversed {
            reverse_order(row, control)?;
        }
        if let Some(powers) = &self.after {
            scale_by_powers(field, row, powers, plan.output_reversed, control)?;
        }
        Ok(())
    }
}
