//! Butterflies, stage by stage. Blocks are halved depth first, so that the inner stages find their
//! elements in a cache.

use rayon::prelude::*;

use super::twiddles::Twiddles;
use crate::{
    engine::JobControl,
    error::Result,
    field::{Arithmetic, Element31, Field31},
};

/// log2 of the elements that a thread transforms alone: 128 KiB stay in its L2 cache.
pub(super) const LG_THREAD: u32 = 15;

/// Elements of a block that stays in the L1 cache during all of its stages.
const BLOCK: usize = 1 << 12;

/// Elements per task of an outer stage.
const TASK_ELEMENTS: usize = 1 << 13;

/// Decimation in frequency: natural to bit-reversed order.
///
/// Errors: those of `control`.
pub(super) fn dif(
    field: Field31,
    row: &mut [Element31],
    twiddles: &Twiddles,
    control: &JobControl,
) -> Result<()> {
    let butterfly = |a: &mut Element31, b: &mut Element31, twiddle| {
        let difference = field.subtract(*a, *b);
        *a = field.add(*a, *b);
        *b = field.multiply(difference, twiddle);
    };
    if row.len() > 1 << LG_THREAD {
        shared_stage(row, twiddles, control, butterfly)?;
        let (low, high) = row.split_at_mut(row.len() / 2);
        let (low, high) = rayon::join(
            || dif(field, low, twiddles, control),
            || dif(field, high, twiddles, control),
        );
        return low.and(high);
    }
    control.check()?;
    dif_alone(row, twiddles, &butterfly);
    Ok(())
}

fn dif_alone(
    row: &mut [Element31],
    twiddles: &Twiddles,
    butterfly: &impl Fn(&mut Element31, &mut Element31, Element31),
) {
    if row.len() > BLOCK {
        stage(row, twiddles, butterfly);
        let (low, high) = row.split_at_mut(row.len() / 2);
        dif_alone(low, twiddles, butterfly);
        dif_alone(high, twiddles, butterfly);
        return;
    }
    let mut length = row.len();
    while length > 1 {
        row.chunks_exact_mut(length).for_each(|block| stage(block, twiddles, butterfly));
        length /= 2;
    }
}

/// Decimation in time: bit-reversed to natural order.
///
/// Errors: those of `control`.
pub(super) fn dit(
    field: Field31,
    row: &mut [Element31],
    twiddles: &Twiddles,
    control: &JobControl,
) -> Result<()> {
    let butterfly = |a: &mut Element31, b: &mut Element31, twiddle| {
        let product = field.multiply(*b, twiddle);
        *b = field.subtract(*a, product);
        *a = field.add(*a, product);
    };
    if row.len() > 1 << LG_THREAD {
        let (low, high) = row.split_at_mut(row.len() / 2);
        let (low, high) = rayon::join(
            || dit(field, low, twiddles, control),
            || dit(field, high, twiddles, control),
        );
        low.and(high)?;
        return shared_stage(row, twiddles, control, butterfly);
    }
    control.check()?;
    dit_alone(row, twiddles, &butterfly);
    Ok(())
}

fn dit_alone(
    row: &mut [Element31],
    twiddles: &Twiddles,
    butterfly: &impl Fn(&mut Element31, &mut Element31, Element31),
) {
    if row.len() > BLOCK {
        let (low, high) = row.split_at_mut(row.len() / 2);
        dit_alone(low, twiddles, butterfly);
        dit_alone(high, twiddles, butterfly);
        return stage(row, twiddles, butterfly);
    }
    let mut length = 2;
    while length <= row.len() {
        row.chunks_exact_mut(length).for_each(|block| stage(block, twiddles, butterfly));
        length *= 2;
    }
}

/// A stage of one block.
#[inline]
fn stage(
    block: &mut [Element31],
    twiddles: &Twiddles,
    butterfly: &impl Fn(&mut Element31, &mut Element31, Element31),
) {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let twiddles = twiddles.of_stage(low.len());
    for ((a, b), twiddle) in low.iter_mut().zip(high).zip(twiddles) {
        butterfly(a, b, *twiddle);
    }
}

/// A stage of one block, by all threads.
fn shared_stage(
    block: &mut [Element31],
    twiddles: &Twiddles,
    control: &JobControl,
    butterfly: impl Fn(&mut Element31, &mut Element31, Element31) + Sync,
) -> Result<()> {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let twiddles = twiddles.of_stage(low.len());
    let halves = low.par_chunks_mut(TASK_ELEMENTS).zip(high.par_chunks_mut(TASK_ELEMENTS));
    halves.zip(twiddles.par_chunks(TASK_ELEMENTS)).try_for_each(|((low, high), twiddles)| {
        control.check()?;
        for ((a, b), twiddle) in low.iter_mut().zip(high).zip(twiddles) {
            butterfly(a, b, *twiddle);
        }
        Ok(())
    })
}
