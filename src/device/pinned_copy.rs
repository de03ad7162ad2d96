//! Pinned host memory that other modules fill and read, copied to and from a device without the
//! ring. It is never freed, so it cannot be freed during a copy.

use std::{
    ops::Range,
    slice,
    sync::{PoisonError, RwLock},
};

use super::{DeviceContext, DeviceFault, DeviceSlice, Stream};

/// One allocation of pinned memory.
struct PinnedMemory {
    addresses: Range<usize>,
    /// Keeps the memory alive.
    _context: DeviceContext,
}

static PINNED: RwLock<Vec<PinnedMemory>> = RwLock::new(Vec::new());

/// Adjacent pieces of host memory within one allocation.
struct HostRun {
    start: *const u8,
    bytes: usize,
}

impl DeviceContext {
    /// Pins `bytes` bytes of zeroed host memory, at least 1, for the life of the process; all
    /// devices can access it.
    pub fn pin(&self, bytes: usize) -> Result<&'static mut [u8], DeviceFault> {
        let base = self.allocate_host(bytes)?;
        let addresses = base as usize..base as usize + bytes;
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.push(PinnedMemory { addresses, _context: self.clone() });
        // SAFETY: the allocation has this length and no other user.
        Ok(unsafe { slice::from_raw_parts_mut(base, bytes) })
    }
}

/// Copies the pieces `from`, which must be memory from [`DeviceContext::pin`], to the device one
/// after the other, after all earlier work on `stream`. Blocks until done.
///
/// Errors: `KernelMismatch` if a piece is not pinned or the lengths differ; driver faults.
pub fn send(stream: &Stream, to: DeviceSlice<'_, u8>, from: &[&[u8]]) -> Result<(), DeviceFault> {
    let pieces = from.iter().map(|piece| piece.as_ptr_range());
    // SAFETY: pinned memory is never freed and stays borrowed until `copy` returns, after the
    // copies have completed; `copy` checks that the slice is as long as all pieces.
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

/// Starts copies between `slice` and the pieces, one after the other, and waits for them.
/// `start_copy` gets the device address, the host address and the number of bytes.
fn copy(
    stream: &Stream,
    slice: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
    start_copy: impl Fn(u64, *const u8, usize) -> Result<(), DeviceFault>,
) -> Result<(), DeviceFault> {
    let runs = host_runs(slice, pieces)?;
    let mut address = slice.address(stream)?;
    let started = runs.into_iter().try_for_each(|run| {
        start_copy(address, run.start, run.bytes)?;
        address += run.bytes as u64;
        Ok(())
    });
    // Even after an error: some copies may be under way.
    let completed = stream.synchronize();
    started.and(completed)
}

/// Merges adjacent pieces: one call per slot of 256 KiB takes twice the time of the link.
fn host_runs(
    slice: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
) -> Result<Vec<HostRun>, DeviceFault> {
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let (mut runs, mut bytes, mut end_of_last) = (Vec::<HostRun>::new(), 0, None);
    for piece in pieces {
        let (start, end) = (piece.start as usize, piece.end as usize);
        // One allocation contains the whole run: it contains each piece, and none overlap.
        let allocation = pinned
            .iter()
            .position(|memory| memory.addresses.start <= start && end <= memory.addresses.end)
            .ok_or_else(|| DeviceFault::mismatch("copy", "memory that is not pinned"))?;
        bytes += end - start;
        match runs.last_mut().filter(|_| end_of_last == Some((start, allocation))) {
            Some(run) => run.bytes += end - start,
            None => runs.push(HostRun { start: piece.start, bytes: end - start }),
        }
        end_of_last = Some((end, allocation));
    }
    if bytes == slice.len() {
        return Ok(runs);
    }
    let problem = format!("{bytes} bytes on the host, {} on the device", slice.len());
    Err(DeviceFault::mismatch("copy", problem))
}
