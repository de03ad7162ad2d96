//! Pinned host memory that other modules fill and read, copied to and from a device without the
//! ring. It is never freed, so it cannot be freed during a copy.

use std::{
    ops::Range,
    slice,
    sync::{PoisonError, RwLock},
};

use cudarc::driver::{result, sys};

use super::{DeviceContext, DeviceFault, DeviceSlice, Stream};

/// Address ranges of all memory pinned here, with the contexts that keep it alive.
static PINNED: RwLock<Vec<(Range<usize>, DeviceContext)>> = RwLock::new(Vec::new());

impl DeviceContext {
    /// Pins `bytes` bytes of zeroed host memory, at least 1, for the life of the process; all
    /// devices can access it.
    ///
    /// Errors: driver faults.
    pub fn pin(&self, bytes: usize) -> Result<&'static mut [u8], DeviceFault> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: zeroed right below.
        let base = self.call("cuMemHostAlloc", || unsafe { result::malloc_host(bytes, flags) })?;
        let base = base.cast::<u8>();
        // SAFETY: the allocation has this length and no other user.
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

/// Copies the pieces `from`, which must be memory from [`DeviceContext::pin`], to the device one
/// after the other, after all earlier work on `stream`. Blocks until done.
///
/// Errors: `KernelMismatch` if a piece is not pinned or the lengths differ; driver faults.
pub fn send(stream: &Stream, to: DeviceSlice<'_, u8>, from: &[&[u8]]) -> Result<(), DeviceFault> {
    let pieces = from.iter().map(|piece| piece.as_ptr_range());
    // SAFETY: pinned memory is never freed and stays borrowed until `copy` returns, after the
    // copies have completed; `copy` checks that the span is as long as all pieces.
    copy(stream, to, pieces, |at, from, bytes| unsafe { stream.copy_in(at, from, bytes) })
}

/// Copies the bytes of `from` to the pieces `to`, which must be memory from [`DeviceContext::pin`],
/// one after the other, after all earlier work on `stream`. Blocks until done.
///
/// Errors: those of [`send`].
pub fn receive(
    stream: &Stream,
    from: DeviceSlice<'_, u8>,
    to: &mut [&mut [u8]],
) -> Result<(), DeviceFault> {
    let pieces = to.iter_mut().map(|piece| {
        let Range { start, end } = piece.as_mut_ptr_range();
        start.cast_const()..end.cast_const()
    });
    // SAFETY: see `send`; here borrowed mutably.
    copy(stream, from, pieces, |at, to, bytes| unsafe { stream.copy_out(to.cast_mut(), at, bytes) })
}

/// Starts copies between `span` and the pieces, one after the other, and waits for them.
fn copy(
    stream: &Stream,
    span: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
    ask: impl Fn(u64, *const u8, usize) -> Result<(), DeviceFault>,
) -> Result<(), DeviceFault> {
    let runs = runs(span, pieces)?;
    let mut at = span.address(stream)?;
    let asked = runs.into_iter().try_for_each(|(piece, bytes)| {
        ask(at, piece, bytes)?;
        at += bytes as u64;
        Ok(())
    });
    // Even after an error: some copies may be under way.
    let done = stream.synchronize();
    asked.and(done)
}

/// Addresses and lengths of the pieces, with adjacent pieces merged: one call per slot of 256 KiB
/// takes twice the time of the link.
fn runs(
    span: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
) -> Result<Vec<(*const u8, usize)>, DeviceFault> {
    let refuse =
        |problem: String| Err(DeviceFault::KernelMismatch { kernel: "copy".into(), problem });
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let (mut runs, mut bytes, mut end_of_last) = (Vec::<(_, usize)>::new(), 0, None);
    for piece in pieces {
        let (start, end) = (piece.start as usize, piece.end as usize);
        // One allocation contains the whole run: it contains each piece, and none overlap.
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
