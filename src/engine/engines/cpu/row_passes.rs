//! Passes over a long row, in tasks between which a job can stop.

use ark_ff::Field;
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::Fr,
    engines::{JobControl, long_rows},
    error::{Error, Result},
};

/// Elements per task.
pub(super) const TASK_ELEMENTS: usize = 1 << 12;

/// Multiplies element i by `first * base^i`.
pub(super) fn scale_by_powers(
    row: &mut [Fr],
    base: Fr,
    first: Fr,
    control: &JobControl,
) -> Result<()> {
    row.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, elements)| {
        control.check()?;
        if base == Fr::ONE {
            elements.iter_mut().for_each(|element| *element *= first);
            return Ok(());
        }
        let mut power = first * base.pow([(task * TASK_ELEMENTS) as u64]);
        for element in elements {
            *element *= power;
            power *= base;
        }
        Ok(())
    })
}

/// 1, `base`, `base`^2 and so on.
pub(super) fn powers(base: Fr, count: usize, control: &JobControl) -> Result<Vec<Fr>> {
    let mut powers = Vec::with_capacity(count);
    long_rows::pad(&mut powers, count, control)?;
    powers.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, powers)| {
        control.check()?;
        let mut power = base.pow([(task * TASK_ELEMENTS) as u64]);
        for out in powers {
            *out = power;
            power *= base;
        }
        Ok::<_, Error>(())
    })?;
    Ok(powers)
}

/// Puts element `source_of(i)` at index i.
pub(super) fn permute(
    row: &mut [Fr],
    source_of: impl Fn(usize) -> usize + Sync,
    control: &JobControl,
) -> Result<()> {
    let mut source = Zeroizing::new(Vec::with_capacity(row.len()));
    long_rows::append(&mut source, row, control)?;
    row.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, elements)| {
        control.check()?;
        for (i, element) in (task * TASK_ELEMENTS..).zip(elements) {
            *element = source[source_of(i)];
        }
        Ok(())
    })
}
