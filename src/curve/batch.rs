//! Decodes or checks many elements in parallel and reports the first bad one.

use rayon::prelude::*;

use super::points::BadElement;
use crate::error::FieldProblem;

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
    let piece = |(piece, (out, bytes)): (usize, (&mut [T], &[u8]))| {
        for (i, (out, bytes)) in out.iter_mut().zip(bytes.chunks_exact(width)).enumerate() {
            match decode(bytes) {
                Ok(value) => *out = value,
                Err(problem) => {
                    return Some(BadElement { index: (piece * grain + i) as u64, problem });
                }
            }
        }
        None
    };
    let found = if out.len() <= grain {
        (!out.is_empty()).then(|| piece((0, (out, bytes)))).flatten()
    } else {
        out.par_chunks_mut(grain)
            .zip(bytes.par_chunks(grain * width))
            .enumerate()
            .find_map_first(piece)
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
    let found =
        elements.par_chunks_mut(grain).zip(notes.par_chunks_mut(grain)).enumerate().find_map_first(
            |(piece, (elements, notes))| {
                for (i, (element, note)) in elements.iter_mut().zip(notes).enumerate() {
                    if let Err(problem) = check(element, note) {
                        return Some(BadElement { index: (piece * grain + i) as u64, problem });
                    }
                }
                None
            },
        );
    found.map_or(Ok(()), Err)
}
