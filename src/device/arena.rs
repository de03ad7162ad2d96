//! Device memory: one allocation for the life of the process, leased in pieces that come zeroed and
//! are zeroed again when they are given back, so that no job sees what another one left.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytemuck::Pod;
use cudarc::driver::result;

use super::{Context, Event, Fault, Stream, free_list::FreeList};

/// Leases begin at multiples of this: what the driver's own allocations do, and enough for every
/// vector load.
pub const ALIGN: u64 = 256;

/// The arena of one device. Clones share it.
#[derive(Clone)]
pub struct Arena(Arc<Inner>);

struct Inner {
    context: Context,
    base: u64,
    bytes: u64,
    /// The notes are the points from which on a free piece is zero.
    free: Mutex<FreeList<Event>>,
    /// Leases up to the one that is refused; 0 where none is.
    refuse: AtomicU64,
}

/// Device memory until it is dropped. It belongs to a stream: it is zero from there on, and zeroed
/// there again. Other streams may use it too: the first use waits for the owner, and the zeroing
/// waits for all uses.
pub struct Lease {
    arena: Arena,
    stream: Stream,
    at: u64,
    held: u64,
    bytes: u64,
    guests: Mutex<Vec<Stream>>,
}

/// A part of a lease, as elements of `T`.
pub struct Span<'a, T> {
    lease: &'a Lease,
    /// Bytes from the start of the lease.
    offset: u64,
    count: usize,
    elements: PhantomData<T>,
}

impl<T> Clone for Span<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Span<'_, T> {}

impl Arena {
    /// Takes `bytes` of the device's memory, and zeroes them.
    ///
    /// Errors: what the driver says.
    pub fn take(context: &Context, bytes: u64) -> Result<Self, Fault> {
        let bytes = bytes / ALIGN * ALIGN;
        // SAFETY: uninitialised memory is no danger on the device; it is zeroed below.
        let allocate = || unsafe { result::malloc_sync(bytes as usize) };
        let base = context.call("cuMemAlloc", allocate)?;
        let free = Mutex::new(FreeList::new(bytes));
        let (context, refuse) = (context.clone(), AtomicU64::new(0));
        let arena = Self(Arc::new(Inner { context, base, bytes, free, refuse }));
        let stream = Stream::new(&arena.0.context)?;
        // SAFETY: just allocated, and waited for.
        unsafe { stream.zero(base, bytes as usize) }?;
        stream.synchronize()?;
        Ok(arena)
    }

    /// `bytes` zeros, at a multiple of [`ALIGN`], for work on `stream`.
    ///
    /// Errors: `Full`; what the driver says.
    pub fn lease(&self, stream: &Stream, bytes: u64) -> Result<Lease, Fault> {
        let held = bytes.max(1).checked_next_multiple_of(ALIGN).filter(|_| !self.is_refused());
        let (at, clean, held) = {
            let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
            let found = held.and_then(|held| free.take(held).map(|(at, clean)| (at, clean, held)));
            found.ok_or_else(|| {
                self.0.context.met(Fault::Full { wanted: bytes, free: free.largest() })
            })?
        };
        let (arena, stream, guests) = (self.clone(), stream.clone(), Mutex::default());
        let lease = Lease { arena, stream, at, held, bytes, guests };
        for event in &clean {
            lease.stream.wait(event)?;
        }
        Ok(lease)
    }

    /// Has lease number `nth` from now on find no room, once; none where it is 0. What a job does
    /// without any one of its leases can be seen that way, whatever room there is. Gives what is
    /// left of the number before: 0 where that lease was refused.
    pub fn refuse(&self, nth: u64) -> u64 {
        self.0.refuse.swap(nth, Ordering::AcqRel)
    }

    fn is_refused(&self) -> bool {
        let next = |left: u64| left.checked_sub(1);
        self.0.refuse.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(1)
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes that are not leased.
    pub fn free_bytes(&self) -> u64 {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).whole()
    }

    /// Bytes of the largest lease that there would be room for, were `others`, of this arena, given
    /// back.
    pub fn largest_free_bytes_with<'l>(&self, others: impl Iterator<Item = &'l Lease>) -> u64 {
        let others: Vec<_> = others.map(|lease| (lease.at, lease.held)).collect();
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).largest_with(others)
    }

    /// Bytes of the largest lease that there is room for.
    pub fn largest_free_bytes(&self) -> u64 {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).largest()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Leases that were given back may still be being zeroed.
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (_, cleaning) = free.take(self.bytes).unwrap_or_default();
        for event in &cleaning {
            // A fault has been reported where it came up.
            let _clean = event.synchronize();
        }
        let base = self.base;
        // SAFETY: allocated by us; no lease is left, since each holds the arena.
        let _gone = self.context.call("cuMemFree", || unsafe { result::free_sync(base) });
    }
}

impl Lease {
    /// How many bytes were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it, as elements of `T`; a rest that is no whole element is left out.
    pub fn all<T: Pod>(&self) -> Span<'_, T> {
        let count = self.bytes as usize / size_of::<T>();
        Span { lease: self, offset: 0, count, elements: PhantomData }
    }

    /// Has `stream` come after the zeroing before the lease, and before the zeroing after it.
    fn admit(&self, stream: &Stream) -> Result<(), Fault> {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is(&self.stream) || guests.iter().any(|guest| guest.is(stream)) {
            return Ok(());
        }
        stream.wait(&self.stream.record()?)?;
        guests.push(stream.clone());
        Ok(())
    }

    /// Zeroes the bytes after their last use.
    fn clean(&mut self) -> Result<Event, Fault> {
        for guest in self.guests.get_mut().unwrap_or_else(PoisonError::into_inner) {
            self.stream.wait(&guest.record()?)?;
        }
        let base = self.arena.0.base + self.at;
        // SAFETY: the lease's own bytes, of which the next lease's stream waits for this one.
        unsafe { self.stream.zero(base, self.held as usize) }?;
        self.stream.record()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.clean() {
            Ok(clean) => {
                let mut free = self.arena.0.free.lock().unwrap_or_else(PoisonError::into_inner);
                let pending = |event: &Event| !event.is_reached().unwrap_or(false);
                free.give(self.at, self.held, vec![clean], pending);
            }
            // Nobody gets bytes that may not be zero.
            Err(fault) => tracing::warn!(%fault, bytes = self.held, "device memory is given up"),
        }
    }
}

impl<'a, T: Pod> Span<'a, T> {
    /// How many elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True where there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes from the start of the arena: kernels that name data by such numbers are told where the
    /// arena begins by a span and its offset.
    pub fn arena_offset(&self) -> u64 {
        self.lease.at + self.offset
    }

    /// Elements `first..first + count`; `None` where there are fewer.
    pub fn part(&self, first: usize, count: usize) -> Option<Self> {
        let inside = first.checked_add(count)? <= self.count;
        let offset = self.offset + (first * size_of::<T>()) as u64;
        inside.then_some(Self { offset, count, ..*self })
    }

    /// The same bytes as elements of `U`; `None` where they are no whole number of these.
    pub fn cast<U: Pod>(&self) -> Option<Span<'a, U>> {
        let bytes = self.count * size_of::<T>();
        let aligned = self.offset.is_multiple_of(align_of::<U>() as u64);
        (aligned && bytes.is_multiple_of(size_of::<U>())).then_some(Span {
            lease: self.lease,
            offset: self.offset,
            count: bytes / size_of::<U>(),
            elements: PhantomData,
        })
    }

    /// The address on the device, for work on `stream`.
    pub(super) fn address(&self, stream: &Stream) -> Result<u64, Fault> {
        self.lease.admit(stream)?;
        Ok(self.lease.arena.0.base + self.lease.at + self.offset)
    }
}
