//! Device memory: one allocation for the life of the process, leased in pieces. Memory is zero when
//! it is leased and zeroed again when it is returned, so that no job sees another job's data.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytemuck::Pod;
use cudarc::driver::result;

use super::{DeviceContext, DeviceFault, Event, Stream, free_list::FreeList};

/// Leases begin at multiples of this many bytes: the alignment of the driver's own allocations, and
/// sufficient for every vector load.
pub const ALIGN: u64 = 256;

/// The arena of one device. Clones share it.
#[derive(Clone)]
pub struct DeviceArena(Arc<ArenaInner>);

struct ArenaInner {
    context: DeviceContext,
    base: u64,
    bytes: u64,
    /// The notes are events; a free piece is zero once all of its events are reached.
    free: Mutex<FreeList<Event>>,
    /// Leases up to and including the one to refuse; 0 for none.
    lease_failure_countdown: AtomicU64,
}

/// Device memory, returned on drop. It belongs to one stream: it is zero for work on that stream,
/// and is zeroed there on drop. Other streams may use it too: their first use waits for the owning
/// stream, and the zeroing waits for all of them.
pub struct DeviceLease {
    arena: DeviceArena,
    stream: Stream,
    offset: u64,
    leased_bytes: u64,
    bytes: u64,
    other_streams: Mutex<Vec<Stream>>,
}

/// Part of a lease, as elements of `T`.
pub struct DeviceSlice<'a, T> {
    lease: &'a DeviceLease,
    /// Byte offset from the start of the lease.
    offset: u64,
    count: usize,
    elements: PhantomData<T>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl DeviceArena {
    /// Allocates `bytes` of device memory and zeroes them.
    ///
    /// Errors: driver faults.
    pub fn allocate(context: &DeviceContext, bytes: u64) -> Result<Self, DeviceFault> {
        let bytes = bytes / ALIGN * ALIGN;
        // SAFETY: uninitialised device memory is harmless; it is zeroed below.
        let allocate = || unsafe { result::malloc_sync(bytes as usize) };
        let base = context.call("cuMemAlloc", allocate)?;
        let free = Mutex::new(FreeList::new(bytes));
        let (context, refuse) = (context.clone(), AtomicU64::new(0));
        let arena = Self(Arc::new(ArenaInner {
            context,
            base,
            bytes,
            free,
            lease_failure_countdown: refuse,
        }));
        let stream = Stream::new(&arena.0.context)?;
        // SAFETY: just allocated, and waited for below.
        unsafe { stream.zero(base, bytes as usize) }?;
        stream.synchronize()?;
        Ok(arena)
    }

    /// Leases `bytes` zeroed bytes, aligned to [`ALIGN`], for work on `stream`.
    ///
    /// Errors: `OutOfMemory`; driver faults.
    pub fn lease(&self, stream: &Stream, bytes: u64) -> Result<DeviceLease, DeviceFault> {
        let held =
            bytes.max(1).checked_next_multiple_of(ALIGN).filter(|_| !self.take_injected_failure());
        let (at, clean, held) = {
            let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
            let found = held.and_then(|held| free.take(held).map(|(at, clean)| (at, clean, held)));
            found.ok_or_else(|| {
                self.0
                    .context
                    .report(DeviceFault::OutOfMemory { wanted: bytes, free: free.largest() })
            })?
        };
        let (arena, stream, guests) = (self.clone(), stream.clone(), Mutex::default());
        let lease = DeviceLease {
            arena,
            stream,
            offset: at,
            leased_bytes: held,
            bytes,
            other_streams: guests,
        };
        for event in &clean {
            lease.stream.wait_event(event)?;
        }
        Ok(lease)
    }

    /// Makes the `nth` lease from now fail with `OutOfMemory`, once; 0 cancels that. Tests use it
    /// to fail each lease of a job in turn. Returns the previous countdown: 0 if that lease was
    /// refused.
    pub fn fail_lease_after(&self, nth: u64) -> u64 {
        self.0.lease_failure_countdown.swap(nth, Ordering::AcqRel)
    }

    fn take_injected_failure(&self) -> bool {
        let next = |left: u64| left.checked_sub(1);
        self.0.lease_failure_countdown.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            == Ok(1)
    }

    /// Size of the arena in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes that are not leased.
    pub fn free_bytes(&self) -> u64 {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).total()
    }

    /// Bytes of the largest lease that would fit if `others`, leases of this arena, were returned.
    pub fn largest_free_bytes_with<'l>(
        &self,
        others: impl Iterator<Item = &'l DeviceLease>,
    ) -> u64 {
        let others: Vec<_> = others.map(|lease| (lease.offset, lease.leased_bytes)).collect();
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).largest_after_release(others)
    }

    /// Bytes of the largest lease that fits now.
    pub fn largest_free_bytes(&self) -> u64 {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).largest()
    }
}

impl Drop for ArenaInner {
    fn drop(&mut self) {
        // The zeroing of returned leases may still be under way.
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (_, cleaning) = free.take(self.bytes).unwrap_or_default();
        for event in &cleaning {
            // A fault here was already reported by `DeviceContext::report`.
            let _clean = event.synchronize();
        }
        let base = self.base;
        // SAFETY: allocated in `take`; no lease is left, since each holds the arena.
        let _gone = self.context.call("cuMemFree", || unsafe { result::free_sync(base) });
    }
}

impl DeviceLease {
    /// Bytes requested.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole lease as elements of `T`, without a trailing partial element.
    pub fn all<T: Pod>(&self) -> DeviceSlice<'_, T> {
        let count = self.bytes as usize / size_of::<T>();
        DeviceSlice { lease: self, offset: 0, count, elements: PhantomData }
    }

    /// Orders `stream` after the zeroing before this lease and before the zeroing after it.
    fn order_after_zeroing(&self, stream: &Stream) -> Result<(), DeviceFault> {
        let mut guests = self.other_streams.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.same_as(&self.stream) || guests.iter().any(|guest| guest.same_as(stream)) {
            return Ok(());
        }
        stream.wait_event(&self.stream.record()?)?;
        guests.push(stream.clone());
        Ok(())
    }

    /// Zeroes the bytes after their last use.
    fn zero(&mut self) -> Result<Event, DeviceFault> {
        for guest in self.other_streams.get_mut().unwrap_or_else(PoisonError::into_inner) {
            self.stream.wait_event(&guest.record()?)?;
        }
        let base = self.arena.0.base + self.offset;
        // SAFETY: the bytes belong to this lease; the next lease's stream waits for the event.
        unsafe { self.stream.zero(base, self.leased_bytes as usize) }?;
        self.stream.record()
    }
}

impl Drop for DeviceLease {
    fn drop(&mut self) {
        match self.zero() {
            Ok(clean) => {
                let mut free = self.arena.0.free.lock().unwrap_or_else(PoisonError::into_inner);
                let pending = |event: &Event| !event.is_reached().unwrap_or(false);
                free.release(self.offset, self.leased_bytes, vec![clean], pending);
            }
            // Never lease bytes again that may not be zero.
            Err(fault) => {
                tracing::warn!(%fault, bytes = self.leased_bytes, "device memory not reused")
            }
        }
    }
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Byte offset from the start of the arena. Kernels that name points by arena offset derive the
    /// arena's base address from a span and this offset.
    pub fn arena_offset(&self) -> u64 {
        self.lease.offset + self.offset
    }

    /// Elements `first..first + count`; `None` if that exceeds the span.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let inside = first.checked_add(count)? <= self.count;
        let offset = self.offset + (first * size_of::<T>()) as u64;
        inside.then_some(Self { offset, count, ..*self })
    }

    /// The same bytes as elements of `U`; `None` if they are misaligned or no multiple of its size.
    pub fn cast<U: Pod>(&self) -> Option<DeviceSlice<'a, U>> {
        let bytes = self.count * size_of::<T>();
        let aligned = self.offset.is_multiple_of(align_of::<U>() as u64);
        (aligned && bytes.is_multiple_of(size_of::<U>())).then_some(DeviceSlice {
            lease: self.lease,
            offset: self.offset,
            count: bytes / size_of::<U>(),
            elements: PhantomData,
        })
    }

    /// The device address, for work on `stream`.
    pub(super) fn address(&self, stream: &Stream) -> Result<u64, DeviceFault> {
        self.lease.order_after_zeroing(stream)?;
        Ok(self.lease.arena.0.base + self.lease.offset + self.offset)
    }
}
