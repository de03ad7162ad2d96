//! Pinned host memory that others fill and read, and from and to which the device copies without
//! the ring between. It is never given back: nobody can free it under a copy.

use std::{
    ops::Range,
    slice,
    sync::{PoisonError, RwLock},
};

use cudarc::driver::{result, sys};

use super::{Context, Fault, Span, Stream};

/// Addresses of all that was ever pinned here, and the contexts that the memory would end with.
static PINNED: RwLock<Vec<(Range<usize>, Context)>> = RwLock::new(Vec::new());

impl Context {
    /// `bytes` bytes of pinned host memory, at least 1, for this process's whole life; all devices
    /// reach it. Zeroed.
    ///
    /// Errors: what the driver says.
    pub fn pin(&self, bytes: usize) -> Result<&'static mut [u8], Fault> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: zeroed right below.
        let base = self.call("cuMemHostAlloc", || unsafe { result::malloc_host(bytes, flags) })?;
        let base = base.cast::<u8>();
        // SAFETY: as long as allocated, and nobody else's.
        let memory = unsafe {
            base.write_bytes(0, bytes);
            slice::from_raw_parts_mut(base, bytes)
        };
        let range = memory.as_ptr_range();
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.push((range.start as usize..range.end as usize, self.clone()));
        Ok(memory)
    }
}

/// Copies `from`, pieces of memory from [`Context::pin`] one after the other, to the device, after
/// all that `stream` was given before. Returns when they are there.
///
/// Errors: `Kernel` where they are not pinned, or not as long as `to`; what the driver says.
pub fn send(stream: &Stream, to: Span<'_, u8>, from: &[&[u8]]) -> Result<(), Fault> {
    let pieces = from.iter().map(|piece| piece.as_ptr_range());
    // SAFETY: pinned memory that is never freed and, waited for in `copy`, borrowed until the
    // stream is past the copy; the span has room for all pieces.
    copy(stream, to, pieces, |at, from, bytes| unsafe { stream.copy_in(at, from, bytes) })
}

/// Copies `from` to pieces of memory from [`Context::pin`], one after the other, after all that
/// `stream` was given before. Returns when all is there.
///
/// Errors: as [`send`].
pub fn receive(stream: &Stream, from: Span<'_, u8>, to: &mut [&mut [u8]]) -> Result<(), Fault> {
    let pieces = to.iter_mut().map(|piece| {
        let Range { start, end } = piece.as_mut_ptr_range();
        start.cast_const()..end.cast_const()
    });
    // SAFETY: as in `send`, and borrowed mutably.
    copy(stream, from, pieces, |at, to, bytes| unsafe { stream.copy_out(to.cast_mut(), at, bytes) })
}

/// Asks for copies between `span` and the pieces, one after the other, and waits for them.
fn copy(
    stream: &Stream,
    span: Span<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
    ask: impl Fn(u64, *const u8, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let runs = runs(span, pieces)?;
    let mut at = span.address(stream)?;
    let asked = runs.into_iter().try_for_each(|(piece, bytes)| {
        ask(at, piece, bytes)?;
        at += bytes as u64;
        Ok(())
    });
    // Waited for whatever happened: some may be under way.
    let done = stream.synchronize();
    asked.and(done)
}

/// Addresses and lengths of the pieces, neighbours together: a call for each slot of 256 KiB took
/// twice the time of the link.
fn runs(
    span: Span<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
) -> Result<Vec<(*const u8, usize)>, Fault> {
    let refuse = |problem: String| Err(Fault::Kernel { kernel: "copy".into(), problem });
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let (mut runs, mut bytes, mut end_of_last) = (Vec::<(_, usize)>::new(), 0, None);
    for piece in pieces {
        let (start, end) = (piece.start as usize, piece.end as usize);
        // One allocation holds a whole run, since it holds each piece and pieces do not overlap.
        let Some(home) = pinned.iter().position(|(all, _)| all.start <= start && end <= all.end)
        else {
            return refuse("memory that is not pinned".to_owned());
        };
        bytes += end - start;
        match runs.last_mut().filter(|_| end_of_last == Some((start, home))) {
            Some((_, length)) => *length += end - start,
            None => runs.push((piece.start, end - start)),
        }
        end_of_last = Some((end, home));
    }
    if bytes == span.len() {
        return Ok(runs);
    }
    refuse(format!("{bytes} bytes on the host, {} on the device", span.len()))
}
