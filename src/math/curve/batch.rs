//! Decodes or checks many elements in parallel and reports the first bad one.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;

/// The first bad element of a batch, by its index in that batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("[{index}]: {problem}")]
pub struct BadElement {
    /// The element's index.
    pub index: u64,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// The number of `width`-byte elements in `bytes`; `Length` if the last one is incomplete.
pub(super) fn element_count(bytes: &[u8], width: usize) -> Result<usize, BadElement> {
    let count = bytes.len() / width;
    if bytes.len().is_multiple_of(width) {
        return Ok(count);
    }
    let expected = ((count + 1) * width) as u64;
    let problem = FieldProblem::Length { expected, got: bytes.len() as u64 };
    Err(BadElement { index: count as u64, problem })
}

/// Fills `out[i]` with the element that `decode` reads at byte `i * width`, in tasks of `grain`
/// elements on the current rayon pool. Shape: `bytes.len() == out.len() * width`.
///
/// Errors: the first element by index that `decode` rejects, whichever task finishes first.
pub(super) fn decode_batch<T: Send>(
    out: &mut [T],
    bytes: &[u8],
    width: usize,
    grain: usize,
    decode: impl Fn(&[u8]) -> Result<T, FieldProblem> + Sync,
) -> Result<(), BadElement> {
    assert_eq!(bytes.len(), out.len() * width, "one output per input");
    let task = |(task, (out, bytes)): (usize, (&mut [T], &[u8]))| {
        let elements = out.iter_mut().zip(bytes.chunks_exact(width));
        first_bad(task * grain, elements, |(out, bytes)| {
            *out = decode(bytes)?;
            Ok(())
        })
    };
    let found = if out.len() <= grain {
        task((0, (out, bytes)))
    } else {
        let tasks = out.par_chunks_mut(grain).zip(bytes.par_chunks(grain * width));
        tasks.enumerate().find_map_first(task)
    };
    found.map_or(Ok(()), Err)
}

/// Like [`decode_batch`], but in place: `check` may rewrite its `WIDTH` bytes. The second argument
/// of `check` is the element's slot in `notes`.
pub(super) fn check_batch<const WIDTH: usize, N: Send>(
    bytes: &mut [u8],
    notes: &mut [N],
    grain: usize,
    check: impl Fn(&mut [u8; WIDTH], &mut N) -> Result<(), FieldProblem> + Sync,
) -> Result<(), BadElement> {
    let (elements, rest) = bytes.as_chunks_mut::<WIDTH>();
    assert!(rest.is_empty() && elements.len() == notes.len(), "one note per whole element");
    let tasks = elements.par_chunks_mut(grain).zip(notes.par_chunks_mut(grain)).enumerate();
    let found = tasks.find_map_first(|(task, (elements, notes))| {
        let elements = elements.iter_mut().zip(notes);
        first_bad(task * grain, elements, |(element, note)| check(element, note))
    });
    found.map_or(Ok(()), Err)
}

/// The first element that `check` rejects; `start` is the index of the first element.
fn first_bad<T>(
    start: usize,
    elements: impl Iterator<Item = T>,
    check: impl Fn(T) -> Result<(), FieldProblem>,
) -> Option<BadElement> {
    elements.enumerate().find_map(|(i, element)| {
        let problem = check(element).err()?;
        Some(BadElement { index: (start + i) as u64, problem })
    })
}
