//! Streams and events: the order of work on a device.
//!
//! Waits on a GPU poll instead of block: the driver's own wait never returns if a device hangs.

use std::{
    ffi::c_void,
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cudarc::driver::{DriverError, result, sys};
use sys::{CUevent_flags as Flags, CUevent_wait_flags as WaitFlags};

use super::{DeviceContext, DeviceFault, driver::DriverHandle};

/// For this time, that of an MSM of 2^18, a waiting thread polls without pause. Then it sleeps
/// between polls, so that a long kernel does not cost a core (`benches/experiments/msm.md`).
const SPIN: Duration = Duration::from_millis(2);
/// A sleep between polls: a result waits for half of one
/// (`benches/experiments/host-device.md`).
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// Timer slack, the delay with which a sleep may end; the system's default is 50 us.
const TIMER_SLACK_NS: libc::c_ulong = 1000;

/// Work that runs in order. Clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamInner>);

struct StreamInner {
    context: DeviceContext,
    stream: DriverHandle<sys::CUstream>,
    launches: AtomicU64,
}

/// A point in a stream, reached when all work before it is done. Clones are the same point.
#[derive(Clone)]
pub struct Event(Arc<EventInner>);

struct EventInner {
    context: DeviceContext,
    event: DriverHandle<sys::CUevent>,
}

impl Stream {
    /// A stream that is not ordered with any other.
    pub fn new(context: &DeviceContext) -> Result<Self, DeviceFault> {
        let kind = result::stream::StreamKind::NonBlocking;
        let stream = context.call("cuStreamCreate", || result::stream::create(kind))?;
        Ok(Self::of(context, stream))
    }

    /// Like [`Self::new`]. Its blocks are placed on multiprocessors before those that other streams
    /// have pending.
    pub fn with_priority(context: &DeviceContext) -> Result<Self, DeviceFault> {
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = MaybeUninit::uninit();
        let create = || {
            // SAFETY: writes the stream if it succeeds. The driver takes the highest priority
            // instead of one that is too high.
            let created = unsafe {
                sys::cuStreamCreateWithPriority(stream.as_mut_ptr(), flags, i32::MIN).result()
            };
            // SAFETY: just written.
            created.map(|()| unsafe { stream.assume_init() })
        };
        let stream = context.call("cuStreamCreateWithPriority", create)?;
        Ok(Self::of(context, stream))
    }

    fn of(context: &DeviceContext, stream: sys::CUstream) -> Self {
        Self(Arc::new(StreamInner {
            context: context.clone(),
            stream: DriverHandle(stream),
            launches: AtomicU64::new(0),
        }))
    }

    pub fn context(&self) -> &DeviceContext {
        &self.0.context
    }

    pub fn launches(&self) -> u64 {
        self.0.launches.load(Ordering::Relaxed)
    }

    pub(super) fn count_launch(&self) {
        self.0.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an event after all work submitted to this stream so far.
    pub fn record(&self) -> Result<Event, DeviceFault> {
        self.record_as(Flags::CU_EVENT_DISABLE_TIMING)
    }

    /// Like [`Stream::record`], with a time for [`Event::elapsed_since`].
    pub fn record_timed(&self) -> Result<Event, DeviceFault> {
        self.record_as(Flags::CU_EVENT_DEFAULT)
    }

    fn record_as(&self, flags: Flags) -> Result<Event, DeviceFault> {
        let context = &self.0.context;
        let raw = context.call("cuEventCreate", || result::event::create(flags))?;
        let event =
            Event(Arc::new(EventInner { context: context.clone(), event: DriverHandle(raw) }));
        // SAFETY: both were created in this context and are alive.
        self.call("cuEventRecord", |stream| unsafe { result::event::record(raw, stream) })?;
        Ok(event)
    }

    /// Makes all work submitted to this stream from now on wait for `event`.
    pub fn wait_event(&self, event: &Event) -> Result<(), DeviceFault> {
        let flags = WaitFlags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive; the driver keeps the event until it is reached.
        let wait = |stream| unsafe { result::stream::wait_event(stream, event.0.event.0, flags) };
        self.call("cuStreamWaitEvent", wait)
    }

    /// Blocks until all work submitted to this stream so far is done.
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
            // SAFETY: the stream is alive.
            let query = |stream| is_done(unsafe { sys::cuStreamQuery(stream) }.result());
            // A fault of the wait is reported by `DeviceContext::report`.
            let _waited = wait_until(&self.0.context, || self.call("cuStreamQuery", query));
        })
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T, DeviceFault> {
        self.0.context.call(name, || call(self.0.stream.0))
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
    /// `address` is device memory, `bytes` long, alive until the memory has been zeroed.
    pub(super) unsafe fn zero(&self, address: u64, bytes: usize) -> Result<(), DeviceFault> {
        // SAFETY: the caller's promise.
        let zero = |stream| unsafe { result::memset_d8_async(address, 0, bytes, stream) };
        self.call("cuMemsetD8Async", zero)
    }
}

impl Event {
    /// Whether the work before it is done. Errors are faults of that work.
    pub fn is_reached(&self) -> Result<bool, DeviceFault> {
        let EventInner { context, event } = &*self.0;
        // SAFETY: the event is alive.
        context.call("cuEventQuery", || is_done(unsafe { result::event::query(event.0) }))
    }

    /// Blocks until the work before it is done, at most for the limit of
    /// [`DeviceContext::begin_wait`]. Polls, since the driver's own wait never returns if the
    /// device hangs.
    pub fn synchronize(&self) -> Result<(), DeviceFault> {
        wait_until(&self.0.context, || self.is_reached())
    }

    /// Blocks until the work before it is done, but at most about `limit`. Returns whether it is
    /// done. Does not notice a device that hangs: a caller that repeats the wait for longer than
    /// [`DeviceContext::timeout`] must call [`Event::synchronize`].
    pub fn wait_at_most(&self, limit: Duration) -> Result<bool, DeviceFault> {
        let start = Instant::now();
        while !self.is_reached()? {
            if start.elapsed() > limit {
                return Ok(false);
            }
            sleep_between_polls();
        }
        Ok(true)
    }

    /// Time on the device from `earlier` to this event. Both must be reached and recorded with
    /// [`Stream::record_timed`]; an event without a time is a fault of class `Misuse`.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, DeviceFault> {
        let (start, end) = (earlier.0.event.0, self.0.event.0);
        // SAFETY: both are alive.
        let elapsed = || unsafe { result::event::elapsed(start, end) };
        let elapsed_ms = self.0.context.call("cuEventElapsedTime", elapsed)?;
        Ok(Duration::from_secs_f64(f64::from(elapsed_ms.max(0.0)) / 1e3))
    }
}

fn is_done(answer: Result<(), DriverError>) -> Result<bool, DriverError> {
    match answer {
        Ok(()) => Ok(true),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Polls until done, at most for the limit of [`DeviceContext::begin_wait`].
fn wait_until(
    context: &DeviceContext,
    mut poll: impl FnMut() -> Result<bool, DeviceFault>,
) -> Result<(), DeviceFault> {
    let start = Instant::now();
    let wait = context.begin_wait();
    while !poll()? {
        match start.elapsed() {
            elapsed if elapsed > wait.limit => {
                return Err(context.report(DeviceFault::Hang(wait.limit)));
            }
            elapsed if elapsed > SPIN => sleep_between_polls(),
            _ => thread::yield_now(),
        }
    }
    Ok(())
}

/// The first call reduces this thread's timer slack.
fn sleep_between_polls() {
    thread_local! {
        static TIMER_SLACK: () = {
            // SAFETY: takes a number and changes only this thread's timers.
            let _refused = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
        };
    }
    TIMER_SLACK.with(|()| thread::sleep(POLL_INTERVAL));
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once; the driver finishes pending work first.
        let destroy = || unsafe { result::stream::destroy(self.stream.0) };
        let _destroyed = self.context.call("cuStreamDestroy", destroy);
    }
}

impl Drop for EventInner {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; the driver keeps it while a stream needs it.
        let destroy = || unsafe { result::event::destroy(self.event.0) };
        let _destroyed = self.context.call("cuEventDestroy", destroy);
    }
}
