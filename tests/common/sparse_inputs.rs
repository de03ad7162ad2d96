//! Inputs that take as long to send as others, but are quick to check and to sum. Any test crate
//! may include this module.
#![allow(dead_code)] // no test crate uses everything

use ark_ff::Zero;
use capstan::client::{CurvePoint, Fr};

/// One in `STEP` elements is not zero, and one in `STEP` points is not at infinity. The first ones
/// are among them, so that an MSM of both is not empty.
const STEP: usize = 16;

/// Returns `n` elements: those of `some(count)`, with zeros between them.
pub fn sparse_scalars(n: usize, some: impl FnOnce(usize) -> Vec<Fr>) -> Vec<Fr> {
    spread(n, some, Fr::zero())
}

/// Returns `n` points: those of `some(count)`, with points at infinity between them.
pub fn sparse_points<A: CurvePoint>(n: usize, some: impl FnOnce(usize) -> Vec<A>) -> Vec<A> {
    spread(n, some, A::zero())
}

fn spread<T: Copy>(n: usize, some: impl FnOnce(usize) -> Vec<T>, other: T) -> Vec<T> {
    let mut all = vec![other; n];
    all.iter_mut().step_by(STEP).zip(some(n.div_ceil(STEP))).for_each(|(to, from)| *to = from);
    all
}
