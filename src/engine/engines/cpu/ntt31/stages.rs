//! Butterflies, stage by stage. Blocks are halved depth first, so that the inner stages find their
//! elements in a cache.

use rayon::prelude::*;

use super::twiddles::Twiddles;
use crate::{
    engines::JobControl,
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
    dif_alone(field, row, twiddles, &butterfly);
    Ok(())
}

fn dif_alone(
    field: Field31,
    row: &mut [Element31],
    twiddles: &Twiddles,
    butterfly: &impl Fn(&mut Element31, &mut Element31, Element31),
) {
    if row.len() > BLOCK {
        stage(row, twiddles, butterfly);
        let (low, high) = row.split_at_mut(row.len() / 2);
        dif_alone(field, low, twiddles, butterfly);
        dif_alone(field, high, twiddles, butterfly);
        return;
    }
    let mut length = row.len();
    while length > 4 {
        row.chunks_exact_mut(length).for_each(|block| stage(block, twiddles, butterfly));
        length /= 2;
    }
    if length == 4 {
        let root = twiddles.of_stage(2)[1];
        row.as_chunks_mut()
            .0
            .iter_mut()
            .for_each(|block| *block = dif_of_four(field, *block, root));
    } else {
        stage(row, twiddles, butterfly);
    }
}

/// The last two stages, without their products with 1. `root` has the order 4.
#[inline]
fn dif_of_four(field: Field31, [a, b, c, d]: [Element31; 4], root: Element31) -> [Element31; 4] {
    let (even, odd) = (field.add(a, c), field.add(b, d));
    let (even_difference, odd_difference) = (field.subtract(a, c), field.subtract(b, d));
    let rotated = field.multiply(odd_difference, root);
    [
        field.add(even, odd),
        field.subtract(even, odd),
        field.add(even_difference, rotated),
        field.subtract(even_difference, rotated),
    ]
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
    dit_alone(field, row, twiddles, &butterfly);
    Ok(())
}

fn dit_alone(
    field: Field31,
    row: &mut [Element31],
    twiddles: &Twiddles,
    butterfly: &impl Fn(&mut Element31, &mut Element31, Element31),
) {
    if row.len() > BLOCK {
        let (low, high) = row.split_at_mut(row.len() / 2);
        dit_alone(field, low, twiddles, butterfly);
        dit_alone(field, high, twiddles, butterfly);
        return stage(row, twiddles, butterfly);
    }
    if row.len() < 4 {
        return stage(row, twiddles, butterfly);
    }
    let root = twiddles.of_stage(2)[1];
    row.as_chunks_mut().0.iter_mut().for_each(|block| *block = dit_of_four(field, *block, root));
    let mut length = 8;
    while length <= row.len() {
        row.chunks_exact_mut(length).for_each(|block| stage(block, twiddles, butterfly));
        length *= 2;
    }
}

/// The first two stages, without their products with 1. `root` has the order 4.
#[inline]
fn dit_of_four(field: Field31, [a, b, c, d]: [Element31; 4], root: Element31) -> [Element31; 4] {
    let (low, low_difference) = (field.add(a, b), field.subtract(a, b));
    let (high, high_difference) = (field.add(c, d), field.subtract(c, d));
    let rotated = field.multiply(high_difference, root);
    [
        field.add(low, high),
        field.add(low_difference, rotated),
        field.subtract(low, high),
        field.subtract(low_difference, rotated),
    ]
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
