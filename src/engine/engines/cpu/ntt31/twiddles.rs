//! The twiddle factors of a transform: adjacent for each stage.

use rayon::prelude::*;

use super::order::{Powers, for_each_power};
use crate::{
    engines::JobControl,
    error::Result,
    field::{Arithmetic, Element31, Field31},
};

/// Elements per task.
const TASK_ELEMENTS: usize = 1 << 14;

/// The powers of the roots of all stages.
pub(super) struct Twiddles(Vec<Element31>);

impl Twiddles {
    /// `root` has the order 2^`lg_n`.
    ///
    /// Errors: those of `control`.
    pub fn new(field: Field31, root: Element31, lg_n: u32, control: &JobControl) -> Result<Self> {
        let half = (1_usize << lg_n) / 2;
        let mut all = vec![Element31::default(); 2 * half.max(1)];
        let (short, longest) = all.split_at_mut(half);
        longest.par_chunks_mut(TASK_ELEMENTS).enumerate().try_for_each(|(task, powers)| {
            control.check()?;
            let first = field.power(root, (task * TASK_ELEMENTS) as u64);
            let of_task = Powers { first, base: root };
            for_each_power(field, powers, &of_task, |out, power| *out = power);
            Ok::<_, crate::error::Error>(())
        })?;
        // Those of half a stage are every second one.
        let mut longer: &[Element31] = longest;
        let mut rest = short;
        while rest.len() > 1 {
            control.check()?;
            let (shorter, own) = rest.split_at_mut(rest.len() / 2);
            for (out, pair) in own.iter_mut().zip(longer.chunks_exact(2)) {
                *out = pair[0];
            }
            (rest, longer) = (shorter, own);
        }
        Ok(Self(all))
    }

    /// The twiddle factors of blocks of `2 * half` elements.
    pub fn of_stage(&self, half: usize) -> &[Element31] {
        &self.0[half..2 * half]
    }
}
