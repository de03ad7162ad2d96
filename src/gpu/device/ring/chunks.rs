//! The chunks of a ring. Each is idle, or belongs to a thread, or to a copy.

use std::{collections::VecDeque, mem, slice, time::Instant};

use cudarc::driver::result;
use parking_lot::{Condvar, Mutex};
use zeroize::Zeroize;

use crate::device::{DeviceContext, DeviceFault, DeviceSlice, Event, Stream};

pub(super) struct PinnedChunks {
    context: DeviceContext,
    base: *mut u8,
    pub chunk_bytes: usize,
    /// Least recently used first.
    idle: Mutex<VecDeque<RingChunk>>,
    returned: Condvar,
}

// SAFETY: each byte behind `base` belongs to one chunk, and a chunk to the one thread that took it
// from `idle`.
unsafe impl Send for PinnedChunks {}
// SAFETY: see `Send`.
unsafe impl Sync for PinnedChunks {}

#[derive(Default)]
struct RingChunk {
    index: usize,
    /// The copy that still reads or writes the bytes.
    copy: Option<Event>,
    /// Length of the prefix that may hold a job's data.
    used: usize,
}

/// A chunk that a thread has taken; returned on drop.
pub(super) struct ChunkGuard<'a> {
    home: &'a PinnedChunks,
    chunk: RingChunk,
}

impl PinnedChunks {
    /// Allocates `chunks` chunks of at least `chunk_bytes` bytes of pinned host memory, both at
    /// least 1.
    pub fn allocate(
        context: &DeviceContext,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<Self, DeviceFault> {
        let chunk_bytes = chunk_bytes.next_multiple_of(size_of::<u64>());
        let base = context.allocate_host(chunk_bytes * chunks)?;
        let idle = (0..chunks).map(|index| RingChunk { index, ..RingChunk::default() }).collect();
        let context = context.clone();
        let returned = Condvar::new();
        Ok(Self { context, base, chunk_bytes, idle: Mutex::new(idle), returned })
    }

    /// Takes a chunk that no copy uses; waits for one, but not longer than for the device, as those
    /// who hold the chunks do. To avoid deadlock, a thread that holds a chunk never calls this.
    pub fn take(&self) -> Result<ChunkGuard<'_>, DeviceFault> {
        let wait = self.context.begin_wait();
        let end = Instant::now() + wait.limit;
        let mut idle = self.idle.lock();
        let chunk = loop {
            if let Some(chunk) = idle.pop_front() {
                break chunk;
            }
            if self.returned.wait_until(&mut idle, end).timed_out() && idle.is_empty() {
                drop(idle);
                return Err(self.context.report(DeviceFault::Hang(wait.limit)));
            }
        };
        drop((idle, wait));
        let mut taken = ChunkGuard { home: self, chunk };
        taken.wait()?;
        Ok(taken)
    }

    /// Takes between 1 and `max` chunks: waits for the first, adds those that are idle.
    pub fn take_some(&self, max: usize) -> Result<Vec<ChunkGuard<'_>>, DeviceFault> {
        let mut chunks = vec![self.take()?];
        while chunks.len() < max
            && let Some(chunk) = self.try_take()
        {
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// Takes a chunk that no copy uses, if there is one now.
    pub fn try_take(&self) -> Option<ChunkGuard<'_>> {
        self.take_first(RingChunk::is_copied)
    }

    fn take_first(&self, accepts: impl Fn(&RingChunk) -> bool) -> Option<ChunkGuard<'_>> {
        let mut idle = self.idle.lock();
        let position = idle.iter().position(accepts)?;
        let chunk = idle.remove(position)?;
        Some(ChunkGuard { home: self, chunk: RingChunk { copy: None, ..chunk } })
    }

    /// Wipes idle chunks whose copy has completed. Concurrent callers share the work.
    pub fn wipe(&self) {
        while let Some(mut taken) = self.take_first(|chunk| chunk.used > 0 && chunk.is_copied()) {
            taken.wipe();
        }
    }
}

impl RingChunk {
    fn is_copied(&self) -> bool {
        self.copy.as_ref().is_none_or(|copy| copy.is_reached().unwrap_or(false))
    }
}

impl ChunkGuard<'_> {
    pub fn is_copied(&self) -> bool {
        self.chunk.is_copied()
    }

    pub fn wait(&mut self) -> Result<(), DeviceFault> {
        if let Some(copy) = &self.chunk.copy {
            copy.synchronize()?;
            self.chunk.copy = None;
        }
        Ok(())
    }

    fn bytes(&mut self, count: usize) -> &mut [u8] {
        let is_usable = self.chunk.copy.is_none() && count <= self.home.chunk_bytes;
        assert!(is_usable, "a copy is still under way");
        // SAFETY: initialised bytes of this chunk, which no copy uses (just checked) and no other
        // thread reaches while the chunk is taken.
        unsafe { slice::from_raw_parts_mut(self.address(), count) }
    }

    pub fn bytes_to_fill(&mut self, count: usize) -> &mut [u8] {
        self.chunk.used = self.chunk.used.max(count);
        self.bytes(count)
    }

    /// The bytes that [`ChunkGuard::receive`] has received.
    pub fn received(&mut self) -> &[u8] {
        self.bytes(self.chunk.used)
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: inside the allocation.
        unsafe { self.home.base.add(self.chunk.index * self.home.chunk_bytes) }
    }

    /// Starts the copy of the chunk's first `to.len()` bytes to the device.
    pub fn send(&mut self, stream: &Stream, to: DeviceSlice<'_, u8>) -> Result<(), DeviceFault> {
        let from = self.address();
        let bytes = to.len();
        let to = to.address(stream)?;
        assert!(bytes <= self.home.chunk_bytes, "a copy fits in one chunk");
        // SAFETY: the chunk is not touched until the event recorded after the copy is reached, and
        // the slice's lease outlives all work on it.
        unsafe { stream.copy_in(to, from, bytes) }?;
        self.chunk.copy = Some(stream.record_or_drain()?);
        Ok(())
    }

    /// Starts the copy of `from` into the chunk; the bytes are valid after [`ChunkGuard::wait`].
    pub fn receive(
        &mut self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let to = self.address();
        let bytes = from.len();
        let from = from.address(stream)?;
        assert!(bytes <= self.home.chunk_bytes, "a copy fits in one chunk");
        if self.chunk.used > bytes {
            self.wipe();
        }
        self.chunk.used = bytes;
        // SAFETY: see `send`.
        unsafe { stream.copy_out(to, from, bytes) }?;
        self.chunk.copy = Some(stream.record_or_drain()?);
        Ok(())
    }

    pub fn wipe(&mut self) {
        // By words: bytes take eight times as long (`benches/experiments/host-device.md`).
        let (head, words, tail) =
            bytemuck::pod_align_to_mut::<u8, u64>(self.bytes(self.chunk.used));
        head.zeroize();
        words.zeroize();
        tail.zeroize();
        self.chunk.used = 0;
    }
}

impl Drop for ChunkGuard<'_> {
    fn drop(&mut self) {
        self.home.idle.lock().push_back(mem::take(&mut self.chunk));
        self.home.returned.notify_one();
    }
}

impl Drop for PinnedChunks {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate`, freed once; the driver waits for copies that use it.
        let free = || unsafe { result::free_host(self.base.cast()) };
        let _freed = self.context.call("cuMemFreeHost", free);
    }
}
