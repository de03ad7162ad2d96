//! Streams and events: the order of work on a device.

use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cudarc::driver::{DriverError, result, sys};
use sys::{CUevent_flags as Flags, CUevent_wait_flags as WaitFlags};

use super::{DeviceContext, DeviceFault};

/// A waiting thread polls for `SPIN`, the time of an MSM of 2^18, then sleeps `NAP` between polls,
/// so that a long kernel does not cost a core. Naps of 50 us took 105 us and delayed results by
/// half of that.
const SPIN: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(20);
/// Timer slack, the delay with which a nap may end; the system's default is 50 us.
const SLACK_NS: libc::c_ulong = 1000;

/// Work that runs in order. Clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamInner>);

struct StreamInner {
    context: DeviceContext,
    raw: sys::CUstream,
    launches: AtomicU64,
}

// SAFETY: streams may be used from every thread; the driver locks.
unsafe impl Send for StreamInner {}
// SAFETY: see `Send`.
unsafe impl Sync for StreamInner {}

/// A point in a stream, reached when all work before it is done. Clones are the same point.
#[derive(Clone)]
pub struct Event(Arc<EventInner>);

struct EventInner {
    context: DeviceContext,
    raw: sys::CUevent,
}

// SAFETY: events may be used from every thread; the driver locks.
unsafe impl Send for EventInner {}
// SAFETY: see `Send`.
unsafe impl Sync for EventInner {}

impl Stream {
    /// A stream that is not ordered with any other.
    ///
    /// Errors: driver faults.
    pub fn new(context: &DeviceContext) -> Result<Self, DeviceFault> {
        let kind = result::stream::StreamKind::NonBlocking;
        let raw = context.call("cuStreamCreate", || result::stream::create(kind))?;
        let launches = AtomicU64::new(0);
        Ok(Self(Arc::new(StreamInner { context: context.clone(), raw, launches })))
    }

    /// The context of the stream's device.
    pub fn context(&self) -> &DeviceContext {
        &self.0.context
    }

    /// Kernels launched on this stream so far.
    pub fn launches(&self) -> u64 {
        self.0.launches.load(Ordering::Relaxed)
    }

    pub(super) fn count_launch(&self) {
        self.0.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an event after all work submitted to this stream so far.
    ///
    /// Errors: driver faults.
    pub fn record(&self) -> Result<Event, DeviceFault> {
        self.record_as(Flags::CU_EVENT_DISABLE_TIMING)
    }

    /// Like [`Stream::record`], with a time for [`Event::elapsed_since`].
    ///
    /// Errors: driver faults.
    pub fn record_timed(&self) -> Result<Event, DeviceFault> {
        self.record_as(Flags::CU_EVENT_DEFAULT)
    }

    fn record_as(&self, flags: Flags) -> Result<Event, DeviceFault> {
        let context = &self.0.context;
        let raw = context.call("cuEventCreate", || result::event::create(flags))?;
        let event = Event(Arc::new(EventInner { context: context.clone(), raw }));
        // SAFETY: both were created in this context and are alive.
        self.call("cuEventRecord", |stream| unsafe { result::event::record(raw, stream) })?;
        Ok(event)
    }

    /// Makes all work submitted to this stream from now on wait for `event`.
    ///
    /// Errors: driver faults.
    pub fn wait_event(&self, event: &Event) -> Result<(), DeviceFault> {
        let flags = WaitFlags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive; the driver keeps the event until it is reached.
        let wait = |stream| unsafe { result::stream::wait_event(stream, event.0.raw, flags) };
        self.call("cuStreamWaitEvent", wait)
    }

    /// Blocks until all work submitted to this stream so far is done.
    ///
    /// Errors: faults of that work; `Hang`.
    pub fn synchronize(&self) -> Result<(), DeviceFault> {
        self.record_or_drain()?.synchronize()
    }

    /// Like [`Stream::record`], for a caller that has just started a copy: if no event can be
    /// recorded, waits until the stream is idle.
    ///
    /// Errors: why there is no event; no copy of this stream is under way then, unless the device
    /// is disabled.
    pub(super) fn record_or_drain(&self) -> Result<Event, DeviceFault> {
        self.record().inspect_err(|_| {
            // A fault of the wait is reported by `DeviceContext::report`.
            let _waited = self.drain();
        })
    }

    /// Blocks until the stream is idle. Needs no event.
    fn drain(&self) -> Result<(), DeviceFault> {
        // SAFETY: the stream is alive.
        let query = |stream| match unsafe { sys::cuStreamQuery(stream) }.result() {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        };
        wait_until(&self.0.context, || self.call("cuStreamQuery", query))
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Calls the driver with this stream.
    pub(super) fn call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T, DeviceFault> {
        self.0.context.call(name, || call(self.0.raw))
    }

    /// Copies bytes to the device, asynchronously.
    ///
    /// # Safety
    /// `from` is pinned memory and `to` device memory, each `bytes` long, alive and not otherwise
    /// accessed until the copy has completed.
    pub(super) unsafe fn copy_in(
        &self,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DeviceFault> {
        let from = from.cast::<c_void>();
        // SAFETY: the caller's promise.
        let copy = |stream| unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream) }.result();
        self.call("cuMemcpyHtoDAsync", copy)
    }

    /// Copies bytes from the device, asynchronously; `to` is valid once the copy has completed.
    ///
    /// # Safety
    /// `to` is pinned memory and `from` device memory, as for [`Stream::copy_in`].
    pub(super) unsafe fn copy_out(
        &self,
        to: *mut u8,
        from: u64,
        bytes: usize,
    ) -> Result<(), DeviceFault> {
        let to = to.cast::<c_void>();
        // SAFETY: the caller's promise.
        let copy = |stream| unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream) }.result();
        self.call("cuMemcpyDtoHAsync", copy)
    }

    /// Zeroes device memory, asynchronously.
    ///
    /// # Safety
    /// `at` is device memory, `bytes` long, alive until the memory has been zeroed.
    pub(super) unsafe fn zero(&self, at: u64, bytes: usize) -> Result<(), DeviceFault> {
        // SAFETY: the caller's promise.
        let zero = |stream| unsafe { result::memset_d8_async(at, 0, bytes, stream) };
        self.call("cuMemsetD8Async", zero)
    }
}

impl Event {
    /// Whether the work before it is done.
    ///
    /// Errors: faults of that work.
    pub fn is_reached(&self) -> Result<bool, DeviceFault> {
        let EventInner { context, raw } = &*self.0;
        // SAFETY: the event is alive.
        context.call("cuEventQuery", || match unsafe { result::event::query(*raw) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Blocks until the work before it is done, at most for the context's patience. Polls, since
    /// the driver's own wait never returns if the device hangs.
    ///
    /// Errors: faults of that work; `Hang`.
    pub fn synchronize(&self) -> Result<(), DeviceFault> {
        wait_until(&self.0.context, || self.is_reached())
    }

    /// Time on the device from `earlier` to this event. Both must be reached and recorded with
    /// [`Stream::record_timed`].
    ///
    /// Errors: driver faults; class `Misuse` if an event is not timed.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, DeviceFault> {
        let (begun, ended) = (earlier.0.raw, self.0.raw);
        // SAFETY: both are alive.
        let elapsed = || unsafe { result::event::elapsed(begun, ended) };
        let elapsed_ms = self.0.context.call("cuEventElapsedTime", elapsed)?;
        Ok(Duration::from_secs_f64(f64::from(elapsed_ms.max(0.0)) / 1e3))
    }
}

/// Polls until done, at most for the context's patience.
fn wait_until(
    context: &DeviceContext,
    mut is_done: impl FnMut() -> Result<bool, DeviceFault>,
) -> Result<(), DeviceFault> {
    let (begun, patience) = (Instant::now(), context.timeout());
    while !is_done()? {
        match begun.elapsed() {
            spent if spent > patience => return Err(context.report(DeviceFault::Hang(patience))),
            spent if spent > SPIN => nap(),
            _ => thread::yield_now(),
        }
    }
    Ok(())
}

/// A short sleep; the first one reduces this thread's timer slack.
fn nap() {
    thread_local! {
        static EXACT: () = {
            // SAFETY: takes a number and changes only this thread's timers.
            let _refused = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
        };
    }
    EXACT.with(|()| thread::sleep(NAP));
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: created in `new`, destroyed once; the driver finishes pending work first.
        let _gone =
            self.context.call("cuStreamDestroy", || unsafe { result::stream::destroy(raw) });
    }
}

impl Drop for EventInner {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: created by us, destroyed once; the driver keeps it while a stream needs it.
        let _gone = self.context.call("cuEventDestroy", || unsafe { result::event::destroy(raw) });
    }
}
