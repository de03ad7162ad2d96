//! Device memory: one allocation for the life of the process, leased in pieces. Memory is zero when
//! it is leased and zeroed again when it is returned, so that no job sees another job's data.

use std::{marker::PhantomData, mem, ops::Range, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::result;
use parking_lot::Mutex;

use super::{
    DeviceContext, DeviceFault, Event, LeaseGate, Stream,
    free_list::{FreeList, TakenPiece},
};

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
    /// Returned pieces that are neither free nor leased: the driver refused to zero them.
    not_zeroed: Mutex<Vec<UsedPiece>>,
    gate: LeaseGate,
}

/// Returned memory that is not zero.
struct UsedPiece {
    range: Range<u64>,
    stream: Stream,
    other_streams: Vec<Stream>,
}

/// Device memory, returned on drop. It belongs to one stream: it is zero for work on that stream,
/// and is zeroed there on drop. Other streams may use it too: their first use waits for the owning
/// stream, and the zeroing waits for all of them.
pub struct DeviceLease {
    arena: DeviceArena,
    stream: Stream,
    /// Offsets in the arena, multiples of [`ALIGN`]; at least the `bytes` requested.
    range: Range<u64>,
    bytes: u64,
    other_streams: Mutex<Vec<Stream>>,
}

/// Part of a lease, as elements of `T`.
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a, T> {
    lease: &'a DeviceLease,
    /// Byte offset from the start of the lease.
    offset: u64,
    count: usize,
    elements: PhantomData<T>,
}

impl DeviceArena {
    /// Allocates `bytes` of device memory and zeroes them. `gate` decides on each lease.
    pub fn allocate(
        context: &DeviceContext,
        bytes: u64,
        gate: LeaseGate,
    ) -> Result<Self, DeviceFault> {
        let bytes = bytes / ALIGN * ALIGN;
        // SAFETY: uninitialised device memory is harmless; it is zeroed below.
        let allocate = || unsafe { result::malloc_sync(bytes as usize) };
        let base = context.call("cuMemAlloc", allocate)?;
        let arena = Self(Arc::new(ArenaInner {
            context: context.clone(),
            base,
            bytes,
            free: Mutex::new(FreeList::new(bytes)),
            not_zeroed: Mutex::default(),
            gate,
        }));
        let stream = Stream::new(&arena.0.context)?;
        // SAFETY: just allocated, and waited for below.
        unsafe { stream.zero(base, bytes as usize) }?;
        stream.synchronize()?;
        Ok(arena)
    }

    /// Leases `bytes` zeroed bytes, aligned to [`ALIGN`], for work on `stream`.
    pub fn lease(&self, stream: &Stream, bytes: u64) -> Result<DeviceLease, DeviceFault> {
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGN).filter(|_| (self.0.gate)());
        // What cannot be zeroed yet is not free.
        let _not_zeroed = self.0.zero_again();
        let mut free = self.0.free.lock();
        let Some(TakenPiece { range, notes: zeroings }) =
            rounded.and_then(|bytes| free.take(bytes))
        else {
            let free_bytes = free.largest();
            drop(free);
            let (requested_bytes, total_bytes) = (bytes, self.0.bytes);
            let fault = DeviceFault::OutOfMemory { requested_bytes, free_bytes, total_bytes };
            return Err(self.0.context.report(fault));
        };
        drop(free);
        if let Err(fault) = zeroings.iter().try_for_each(|zeroed| stream.wait_event(zeroed)) {
            self.0.free.lock().release(range, zeroings, |_| true);
            return Err(fault);
        }
        Ok(DeviceLease {
            arena: self.clone(),
            stream: stream.clone(),
            range,
            bytes,
            other_streams: Mutex::default(),
        })
    }

    /// Waits until all returned memory is zero.
    ///
    /// Errors: those of work that used it; why it cannot be zeroed.
    pub fn wait_until_zeroed(&self) -> Result<(), DeviceFault> {
        self.0.zero_again()?;
        // The events are waited for without the lock.
        let zeroings = self.0.free.lock().notes();
        zeroings.iter().try_for_each(Event::synchronize)
    }

    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    pub fn free_bytes(&self) -> u64 {
        self.0.free.lock().total()
    }

    /// Bytes of the largest lease that would fit if `others`, leases of this arena, were returned.
    pub fn largest_free_bytes_with<'l>(
        &self,
        others: impl Iterator<Item = &'l DeviceLease>,
    ) -> u64 {
        let others: Vec<_> = others.map(|lease| lease.range.clone()).collect();
        self.0.free.lock().largest_after_release(others)
    }

    pub fn largest_free_bytes(&self) -> u64 {
        self.0.free.lock().largest()
    }
}

impl ArenaInner {
    /// Zeroes the bytes after their last use, and frees them. If the driver refuses that, the next
    /// lease tries again: bytes that may not be zero are never leased.
    fn give_back(&self, piece: UsedPiece) -> Result<(), DeviceFault> {
        match piece.zero(self.base) {
            Ok(zeroed) => {
                let is_pending = |event: &Event| !event.is_reached().unwrap_or(false);
                self.free.lock().release(piece.range, vec![zeroed], is_pending);
                Ok(())
            }
            Err(fault) => {
                self.not_zeroed.lock().push(piece);
                Err(fault)
            }
        }
    }

    /// Zeroes what could not be zeroed before. Fails with the last failure.
    fn zero_again(&self) -> Result<(), DeviceFault> {
        let pieces = mem::take(&mut *self.not_zeroed.lock());
        let mut done = Ok(());
        for piece in pieces {
            done = self.give_back(piece).and(done);
        }
        done
    }
}

impl UsedPiece {
    fn zero(&self, base: u64) -> Result<Event, DeviceFault> {
        for other in &self.other_streams {
            self.stream.wait_event(&other.record()?)?;
        }
        let Range { start, end } = self.range;
        // SAFETY: the bytes belong to no lease; the next lease's stream waits for the event.
        unsafe { self.stream.zero(base + start, (end - start) as usize) }?;
        self.stream.record()
    }
}

impl Drop for ArenaInner {
    fn drop(&mut self) {
        let _not_zeroed = self.zero_again();
        // The zeroing of returned leases may still be under way.
        for zeroed in self.free.get_mut().notes() {
            // A fault here was already reported by `DeviceContext::report`.
            let _zeroed = zeroed.synchronize();
        }
        // SAFETY: allocated in `allocate`; no lease is left, since each holds the arena.
        let _freed = self.context.call("cuMemFree", || unsafe { result::free_sync(self.base) });
    }
}

impl DeviceLease {
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
        let mut others = self.other_streams.lock();
        if stream.same_as(&self.stream) || others.iter().any(|other| other.same_as(stream)) {
            return Ok(());
        }
        stream.wait_event(&self.stream.record()?)?;
        others.push(stream.clone());
        Ok(())
    }
}

impl Drop for DeviceLease {
    fn drop(&mut self) {
        let Range { start, end } = self.range;
        let stream = self.stream.clone();
        let other_streams = mem::take(self.other_streams.get_mut());
        let piece = UsedPiece { range: start..end, stream, other_streams };
        if let Err(fault) = self.arena.0.give_back(piece) {
            tracing::warn!(%fault, bytes = end - start, "device memory cannot be zeroed yet");
        }
    }
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Byte offset from the start of the arena. Kernels that name points by arena offset derive the
    /// arena's base address from a slice and this offset.
    pub fn arena_offset(&self) -> u64 {
        self.lease.range.start + self.offset
    }

    /// Elements `first..first + count`; `None` if that exceeds the slice.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let is_inside = first.checked_add(count)? <= self.count;
        let offset = self.offset + (first * size_of::<T>()) as u64;
        is_inside.then_some(Self { offset, count, ..*self })
    }

    /// The same bytes as elements of `U`; `None` if they are misaligned or no multiple of its size.
    pub fn cast<U: Pod>(&self) -> Option<DeviceSlice<'a, U>> {
        let bytes = self.count * size_of::<T>();
        let is_aligned = self.offset.is_multiple_of(align_of::<U>() as u64);
        (is_aligned && bytes.is_multiple_of(size_of::<U>())).then_some(DeviceSlice {
            lease: self.lease,
            offset: self.offset,
            count: bytes / size_of::<U>(),
            elements: PhantomData,
        })
    }

    /// The device address, for work on `stream`.
    pub(super) fn address(&self, stream: &Stream) -> Result<u64, DeviceFault> {
        self.lease.order_after_zeroing(stream)?;
        Ok(self.lease.arena.0.base + self.arena_offset())
    }
}
