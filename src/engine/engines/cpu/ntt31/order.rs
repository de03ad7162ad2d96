//! Passes over a row before and after the butterflies.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::reverse_bits,
    engines::{JobControl, long_rows},
    error::Result,
    field::{Arithmetic, Element31, Field31},
};

/// Elements per task.
const TASK_ELEMENTS: usize = 1 << 14;

/// `first`, `first * base`, `first * base^2`, ...
pub(super) struct Powers {
    pub first: Element31,
    pub base: Element31,
}

/// Multiplies the element of index i by the power of index i; with `is_reversed`, element i is at
/// the position with i's bits reversed.
///
/// Errors: those of `control`.
pub(super) fn scale_by_powers(
    field: Field31,
    row: &mut [Element31],
    powers: &Powers,
    is_reversed: bool,
    control: &JobControl,
) -> Result<()> {
    let &Powers { first, base } = powers;
    let lg_n = row.len().trailing_zeros();
    let steps: Vec<_> = (0..lg_n).map(|bit| field.power(base, 1 << bit)).collect();
    row.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, elements)| {
        control.check()?;
        let start = task * TASK_ELEMENTS;
        if base == field.one() {
            elements.iter_mut().for_each(|element| *element = field.multiply(*element, first));
        } else if is_reversed {
            let exponent = reverse_bits(start, lg_n) as u64;
            let factor = field.multiply(first, field.power(base, exponent));
            scale_reversed(field, elements, factor, &steps);
        } else {
            let factor = field.multiply(first, field.power(base, start as u64));
            let scale = |element: &mut _, factor| *element = field.multiply(*element, factor);
            for_each_power(field, elements, &Powers { first: factor, base }, scale);
        }
        Ok(())
    })
}

/// Powers that are computed at the same time: a chain of products takes four times as long.
const LANES: usize = 16;

/// Calls `visit` with each element and the power of its index.
pub(super) fn for_each_power(
    field: Field31,
    elements: &mut [Element31],
    powers: &Powers,
    visit: impl Fn(&mut Element31, Element31),
) {
    let mut power = powers.first;
    let mut lanes: [_; LANES] = std::array::from_fn(|_| {
        let next = field.multiply(power, powers.base);
        std::mem::replace(&mut power, next)
    });
    let step = field.power(powers.base, LANES as u64);
    for elements in elements.chunks_mut(LANES) {
        for (element, power) in elements.iter_mut().zip(&mut lanes) {
            visit(element, *power);
            *power = field.multiply(*power, step);
        }
    }
}

/// Multiplies bit-reversed elements, the first of them by `factor`. `steps[bit]` is the quotient of
/// the factors of two indices that differ in that bit only.
fn scale_reversed(
    field: Field31,
    elements: &mut [Element31],
    factor: Element31,
    steps: &[Element31],
) {
    if let [element] = elements {
        *element = field.multiply(*element, factor);
        return;
    }
    let (low, high) = elements.split_at_mut(elements.len() / 2);
    let Some(step) = steps.len().checked_sub(high.len().ilog2() as usize + 1) else { return };
    scale_reversed(field, low, factor, steps);
    scale_reversed(field, high, field.multiply(factor, steps[step]), steps);
}

/// Moves element i to the index with i's bits reversed.
///
/// Errors: those of `control`.
pub(super) fn reverse_order(row: &mut [Element31], control: &JobControl) -> Result<()> {
    let lg_n = row.len().trailing_zeros();
    let mut source = Zeroizing::new(Vec::with_capacity(row.len()));
    long_rows::append(&mut source, row, control)?;
    row.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, elements)| {
        control.check()?;
        for (i, element) in (task * TASK_ELEMENTS..).zip(elements) {
            *element = source[reverse_bits(i, lg_n)];
        }
        Ok(())
    })
}
