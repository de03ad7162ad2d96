//! Pinned host memory that other modules fill and read, copied to and from a device without the
//! ring. Memory of the driver is never freed, and shared memory is unpinned after all copies.

use std::{ops::Range, slice, sync::Arc};

use parking_lot::RwLock;

use super::{DeviceContext, DeviceFault, DeviceSlice, Stream};
use crate::region::SharedMemory;

struct PinnedMemory {
    addresses: Range<usize>,
    /// Keeps the memory alive.
    _context: DeviceContext,
}

static PINNED: RwLock<Vec<PinnedMemory>> = RwLock::new(Vec::new());

/// Shared memory that all devices can access until this is dropped.
pub struct PinnedShare {
    memory: Arc<SharedMemory>,
    context: DeviceContext,
}

impl DeviceContext {
    /// Pins `bytes` bytes of zeroed host memory, at least 1, for the life of the process; all
    /// devices can access it.
    pub fn pin(&self, bytes: usize) -> Result<&'static mut [u8], DeviceFault> {
        let base = self.allocate_host(bytes)?;
        let addresses = base as usize..base as usize + bytes;
        PINNED.write().push(PinnedMemory { addresses, _context: self.clone() });
        // SAFETY: the allocation has this length and no other user.
        Ok(unsafe { slice::from_raw_parts_mut(base, bytes) })
    }

    /// Pins shared memory; all devices can access it.
    pub fn pin_shared(&self, memory: Arc<SharedMemory>) -> Result<PinnedShare, DeviceFault> {
        let addresses = addresses(&memory);
        self.register_host(addresses.clone())?;
        PINNED.write().push(PinnedMemory { addresses, _context: self.clone() });
        Ok(PinnedShare { memory, context: self.clone() })
    }
}

impl Drop for PinnedShare {
    fn drop(&mut self) {
        let addresses = addresses(&self.memory);
        PINNED.write().retain(|pinned| pinned.addresses != addresses);
        // After an error, the driver keeps the pages until the process ends.
        let _unpinned = self.context.unregister_host(addresses.start);
    }
}

fn addresses(memory: &SharedMemory) -> Range<usize> {
    let Range { start, end } = memory.device_source(0, memory.size()).as_ptr_range();
    start as usize..end as usize
}

/// Copies the pieces `from`, which must be in pinned memory, to the device one after the other,
/// after all earlier work on `stream`. Blocks until done.
///
/// Errors: `KernelMismatch` if a piece is not pinned or the lengths differ; driver faults.
pub fn send(stream: &Stream, to: DeviceSlice<'_, u8>, from: &[&[u8]]) -> Result<(), DeviceFault> {
    let pieces = from.iter().map(|piece| piece.as_ptr_range());
    // SAFETY: pinned memory stays borrowed until `copy` returns, after the copies have completed;
    // `copy` checks that the slice is as long as all pieces.
    copy(stream, to, pieces, |at, from, bytes| unsafe { stream.copy_in(at, from, bytes) })
}

/// Copies the bytes of `from` to the pieces `to`, which must be in pinned memory, one after the
/// other, after all earlier work on `stream`. Blocks until done.
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
        let bytes = run.end as usize - run.start as usize;
        start_copy(address, run.start, bytes)?;
        address += bytes as u64;
        Ok(())
    });
    // Even after an error: some copies may be under way.
    let completed = stream.synchronize();
    started.and(completed)
}

/// Merges adjacent pieces of an allocation: a call per slot takes twice the link's time
/// (`benches/experiments/host-device.md`).
fn host_runs(
    slice: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<*const u8>>,
) -> Result<Vec<Range<*const u8>>, DeviceFault> {
    let pinned = PINNED.read();
    let (mut runs, mut bytes, mut end_of_last) = (Vec::<Range<_>>::new(), 0, None);
    for piece in pieces {
        let (start, end) = (piece.start as usize, piece.end as usize);
        // One allocation contains the whole run: it contains each piece, and none overlap.
        let allocation = pinned
            .iter()
            .position(|memory| memory.addresses.start <= start && end <= memory.addresses.end)
            .ok_or_else(|| DeviceFault::mismatch("copy", "memory that is not pinned"))?;
        bytes += end - start;
        match runs.last_mut().filter(|_| end_of_last == Some((start, allocation))) {
            Some(run) => run.end = piece.end,
            None => runs.push(piece),
        }
        end_of_last = Some((end, allocation));
    }
    if bytes == slice.len() {
        return Ok(runs);
    }
    let problem = format!("{bytes} bytes on the host, {} on the device", slice.len());
    Err(DeviceFault::mismatch("copy", problem))
}
