//! Pinned host memory that other modules fill and read, copied to and from a device without the
//! ring. It is unpinned after all copies.
//!
//! Payloads may lie in pinned memory: the server lets this module pin the touched beginning of the
//! file, which payloads use first. Payload memory knows nothing of devices: shared memory states
//! how many of its first bytes are pinned, and a copy from or to them ends before the borrow does.
//! The list of pinned ranges belongs to the process: every device of the process can copy from
//! them, and a copy proves by that list that bytes are pinned.

use std::{
    mem,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use parking_lot::{Mutex, RwLock};
use tracing::{debug, warn};

use super::{DeviceContext, DeviceFault, DeviceSlice, Event, Stream};
use crate::region::{DeviceBytes, SharedMemory};

/// Bytes pinned per call: several smaller calls may succeed when a large one fails.
const PINNED_AT_ONCE: usize = 256 << 20;

/// The addresses of each call that pinned memory.
static PINNED: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());

/// Shared memory whose first bytes all devices can access until this is dropped.
pub struct PinnedShare {
    pinning: Arc<SharePinning>,
    /// Pins what one call could not.
    rest: Option<JoinHandle<()>>,
}

struct SharePinning {
    memory: Arc<SharedMemory>,
    context: DeviceContext,
    /// Pinned by one call each.
    parts: Mutex<Vec<Range<usize>>>,
    is_dropped: AtomicBool,
}

impl DeviceContext {
    /// Pins the first `bytes` bytes of shared memory, or as many as the driver grants. All devices
    /// can access them. Returns when one call has pinned what it can; a thread pins the rest, since
    /// a gigabyte takes a third of a second.
    ///
    /// Errors: the driver's, if it grants none.
    pub fn pin_shared(
        &self,
        memory: Arc<SharedMemory>,
        bytes: usize,
    ) -> Result<PinnedShare, DeviceFault> {
        let base = memory.for_device(0, bytes).addresses().start;
        let pinning = Arc::new(SharePinning {
            memory,
            context: self.clone(),
            parts: Mutex::default(),
            is_dropped: AtomicBool::new(false),
        });
        let mut parts = (0..bytes)
            .step_by(PINNED_AT_ONCE)
            .map(move |start| base + start..base + bytes.min(start + PINNED_AT_ONCE));
        if let Some(first) = parts.next() {
            pinning.pin(first)?;
        }
        if parts.len() == 0 {
            return Ok(PinnedShare { pinning, rest: None });
        }
        let pin_rest = {
            let pinning = pinning.clone();
            move || {
                let pinned = parts.try_for_each(|part| pinning.pin(part));
                pinned.unwrap_or_else(|fault| warn!(%fault, "cannot pin more memory"));
                debug!(
                    bytes = pinning.memory.pinned_bytes(),
                    "no more shared memory is to be pinned"
                );
            }
        };
        let rest = thread::Builder::new().name("capstan-pin".into()).spawn(pin_rest);
        let rest = rest.inspect_err(|error| warn!(%error, "cannot pin more memory"));
        Ok(PinnedShare { pinning, rest: rest.ok() })
    }
}

impl SharePinning {
    fn pin(&self, part: Range<usize>) -> Result<(), DeviceFault> {
        if self.is_dropped.load(Ordering::Acquire) {
            return Ok(());
        }
        self.context.register_host(part.clone(), self.memory.access())?;
        PINNED.write().push(part.clone());
        let mut parts = self.parts.lock();
        parts.push(part);
        self.memory.set_pinned_bytes(parts.iter().map(Range::len).sum());
        Ok(())
    }
}

impl Drop for PinnedShare {
    fn drop(&mut self) {
        let SharePinning { memory, context, parts, is_dropped } = &*self.pinning;
        is_dropped.store(true, Ordering::Release);
        // A panic of the thread has been reported.
        let _ended = self.rest.take().map(JoinHandle::join);
        memory.set_pinned_bytes(0);
        let parts = mem::take(&mut *parts.lock());
        PINNED.write().retain(|pinned| !parts.contains(pinned));
        for part in parts {
            // After an error, the driver keeps the pages until the process ends.
            let _unpinned = context.unregister_host(part.start);
        }
    }
}

/// Copies the pieces `from`, which must be in pinned memory, to the device one after the other,
/// after all earlier work on `stream`. Calls `meanwhile` while the copies are under way, and blocks
/// until they are done.
///
/// Errors: `KernelMismatch` if a piece is not pinned or the lengths differ; driver faults; those of
/// `meanwhile`.
pub fn send<T, E: From<DeviceFault>>(
    stream: &Stream,
    to: DeviceSlice<'_, u8>,
    from: &[DeviceBytes<'_>],
    meanwhile: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let pieces = from.iter().map(DeviceBytes::addresses);
    // SAFETY: pinned memory stays borrowed until `copies` is dropped, after the copies have
    // completed; `start` checks that the slice is as long as all pieces.
    let copies = start(stream, to, pieces, |at, from, bytes| unsafe {
        stream.copy_in(at, from as *const u8, bytes)
    })?;
    let done = meanwhile();
    copies.wait()?;
    done
}

/// Copies the bytes of `from` to the pieces `to`, which must be in pinned memory, one after the
/// other, after all earlier work on `stream`. Blocks until done.
///
/// Errors: `KernelMismatch` if a piece is not pinned or the lengths differ; driver faults.
pub fn receive(
    stream: &Stream,
    from: DeviceSlice<'_, u8>,
    to: &[DeviceBytes<'_>],
) -> Result<(), DeviceFault> {
    let pieces = to.iter().map(DeviceBytes::addresses);
    // SAFETY: see `send`; this process has no reference to bytes of shared memory that are not
    // received yet.
    let copies = start(stream, from, pieces, |at, to, bytes| unsafe {
        stream.copy_out(to as *mut u8, at, bytes)
    })?;
    copies.wait()
}

/// The end of copies that may be under way. Drop waits for it.
struct CopiesUnderWay(Option<Event>);

impl CopiesUnderWay {
    fn wait(mut self) -> Result<(), DeviceFault> {
        self.0.take().map_or(Ok(()), |end| end.synchronize())
    }
}

impl Drop for CopiesUnderWay {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            // A fault is reported by `DeviceContext::report`.
            let _waited = end.synchronize();
        }
    }
}

/// Starts copies between `slice` and the pieces, one after the other. `start_copy` gets the device
/// address, the host address and the number of bytes.
fn start(
    stream: &Stream,
    slice: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<usize>>,
    start_copy: impl Fn(u64, usize, usize) -> Result<(), DeviceFault>,
) -> Result<CopiesUnderWay, DeviceFault> {
    let runs = host_runs(slice, pieces)?;
    let mut address = slice.address(stream)?;
    let started = runs.into_iter().try_for_each(|run| {
        start_copy(address, run.start, run.len())?;
        address += run.len() as u64;
        Ok(())
    });
    // Even after an error: some copies may be under way.
    let copies = stream.record_or_drain().map(|end| CopiesUnderWay(Some(end)));
    started.and(copies)
}

/// Merges adjacent pieces, since a call per piece takes twice the link's time
/// (`benches/experiments/host-device.md`), and splits them between memory that different calls have
/// pinned.
fn host_runs(
    slice: DeviceSlice<'_, u8>,
    pieces: impl Iterator<Item = Range<usize>>,
) -> Result<Vec<Range<usize>>, DeviceFault> {
    let pinned = PINNED.read();
    let mut runs = Vec::<Range<usize>>::new();
    let mut bytes = 0;
    let mut end_of_last = None;
    for Range { mut start, end } in pieces {
        bytes += end - start;
        while start < end {
            let part = pinned.iter().position(|part| part.contains(&start));
            let part = part.ok_or_else(|| DeviceFault::mismatch("copy", NOT_PINNED))?;
            let run = start..end.min(pinned[part].end);
            start = run.end;
            match runs.last_mut().filter(|_| end_of_last == Some((run.start, part))) {
                Some(last) => last.end = run.end,
                None => runs.push(run),
            }
            end_of_last = Some((start, part));
        }
    }
    if bytes == slice.len() {
        return Ok(runs);
    }
    let problem = format!("{bytes} bytes on the host, {} on the device", slice.len());
    Err(DeviceFault::mismatch("copy", problem))
}

const NOT_PINNED: &str = "memory that is not pinned";
