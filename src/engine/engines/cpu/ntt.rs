//! NTT on the CPU: arkworks' radix-2 transform on parallel rows, and bit reversal.

use std::sync::LazyLock;

use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;

use super::{
    long_ntt::{LG_PART, LongNtt, LongTransform},
    row_passes::permute,
};
use crate::{
    curve::{Fr, TWO_ADICITY, reverse_bits},
    engines::{JobControl, NttPlan},
    error::{Error, FieldProblem, Result},
};

/// Up to this size each thread transforms its own row. A longer row occupies all threads alone, and
/// several would only evict each other from the caches. Figures were not kept.
const ROW_PER_THREAD_LG_N: u32 = 13;

/// Whether each thread transforms its own row of 2^`lg_n` elements.
pub(super) const fn is_row_per_thread(lg_n: u32) -> bool {
    lg_n <= ROW_PER_THREAD_LG_N
}

/// Transforms each row in place, on the current pool: long ones by `long`, in parts.
pub(super) fn transform(
    plan: &NttPlan,
    rows: &mut [Vec<Fr>],
    long: LongTransform,
    control: &JobControl,
) -> Result<()> {
    let domain = domain(plan)?;
    if rows.iter().any(|row| row.len() as u64 != domain.size) {
        return Err(Error::Internal("a row's length differs from the plan's".into()));
    }
    let one = |row: &mut Vec<Fr>| {
        control.check()?;
        if plan.input_reversed {
            reverse_order(row, control)?;
        }
        if plan.lg_n > LG_PART {
            let ntt = LongNtt { domain, inverse: plan.inverse, lg_part: LG_PART };
            long(&ntt, row, control)?;
        } else if plan.inverse {
            domain.ifft_in_place(row);
        } else {
            domain.fft_in_place(row);
        }
        if plan.output_reversed {
            reverse_order(row, control)?;
        }
        Ok(())
    };
    if is_row_per_thread(plan.lg_n) {
        rows.par_iter_mut().try_for_each(one)
    } else {
        rows.iter_mut().try_for_each(one)
    }
}

/// The subgroup of every size. Creating one takes two inversions, noticeable in a transform of
/// 2^10; arkworks recomputes the roots of unity for each transform anyway.
static DOMAINS: LazyLock<Vec<Radix2EvaluationDomain<Fr>>> = LazyLock::new(|| {
    (0..=TWO_ADICITY).map_while(|lg_n| Radix2EvaluationDomain::new(1 << lg_n)).collect()
});

fn domain(plan: &NttPlan) -> Result<Radix2EvaluationDomain<Fr>> {
    let domain = DOMAINS
        .get(plan.lg_n as usize)
        .ok_or(Error::field("lg_n", FieldProblem::TooLarge { max: TWO_ADICITY.into() }))?;
    match plan.coset {
        None => Ok(*domain),
        Some(shift) => domain.get_coset(shift).ok_or(Error::field("coset", FieldProblem::Zero)),
    }
}

/// Bytes that a transform needs in addition to its rows: roots of unity, and a copy for bit
/// reversal.
pub(super) fn scratch_bytes(lg_n: u32, threads: usize) -> u64 {
    let rows = if is_row_per_thread(lg_n) { threads as u64 } else { 1 };
    (rows * 2 * size_of::<Fr>() as u64) << lg_n
}

/// Moves element i to the index with i's bits reversed.
fn reverse_order(row: &mut [Fr], control: &JobControl) -> Result<()> {
    let lg_n = row.len().trailing_zeros();
    permute(row, |i| reverse_bits(i, lg_n), control)
}
