//! Pinned host memory in chunks, the staging area for copies to and from a device. A chunk is
//! filled while earlier ones are copied, and reused once its copy has completed.

mod upload;

use std::{
    collections::VecDeque,
    slice,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use cudarc::driver::{result, sys};
use zeroize::Zeroize;

pub use self::upload::RingUpload;
use super::{DeviceContext, DeviceFault, DeviceSlice, Event, Stream};

/// The chunks of one device. Clones share them.
#[derive(Clone)]
pub struct StagingRing(Arc<RingInner>);

struct RingInner {
    context: DeviceContext,
    base: *mut u8,
    chunk_bytes: usize,
    /// Chunks that one upload or download may hold at a time: half of them.
    chunks_per_copy_max: usize,
    /// Least recently used first.
    idle: Mutex<VecDeque<RingChunk>>,
    returned: Condvar,
}

// SAFETY: each byte behind `base` belongs to one chunk, and a chunk to the one thread that took it
// from `idle`.
unsafe impl Send for RingInner {}
// SAFETY: see `Send`.
unsafe impl Sync for RingInner {}

struct RingChunk {
    index: usize,
    /// The copy that still reads or writes the bytes.
    copy: Option<Event>,
    /// Length of the prefix that may hold a job's data.
    used: usize,
}

/// A chunk taken out of the ring; returned on drop.
struct ChunkGuard<'a> {
    ring: &'a RingInner,
    chunk: Option<RingChunk>,
}

/// The copies of one job. Their data in chunks is wiped once, on drop: wiping after each copy would
/// take longer than the link. Drop does not wipe chunks that a copy still uses, so wait for streams
/// with uploads first.
pub struct CopySession(StagingRing);

impl StagingRing {
    /// Allocates `chunks` chunks of `chunk_bytes` bytes of pinned host memory, both at least 1.
    ///
    /// Errors: driver faults.
    pub fn allocate(
        context: &DeviceContext,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<Self, DeviceFault> {
        let chunk_bytes = chunk_bytes.next_multiple_of(size_of::<u64>());
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: zeroed right below.
        let allocate = || unsafe { result::malloc_host(chunk_bytes * chunks, flags) };
        let base = context.call("cuMemHostAlloc", allocate)?.cast::<u8>();
        // SAFETY: the allocation has this length and no other user yet.
        unsafe { base.write_bytes(0, chunk_bytes * chunks) };
        let idle = (0..chunks).map(|index| RingChunk { index, copy: None, used: 0 }).collect();
        let context = context.clone();
        let (idle, returned) = (Mutex::new(idle), Condvar::new());
        let share = (chunks / 2).max(1);
        Ok(Self(Arc::new(RingInner {
            context,
            base,
            chunk_bytes,
            chunks_per_copy_max: share,
            idle,
            returned,
        })))
    }

    /// Bytes of one chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.0.chunk_bytes
    }

    /// Starts an upload to `to` on `stream`. Work on another stream must wait for
    /// [`RingUpload::record_sent`].
    pub fn upload<'a, 'l>(
        &'a self,
        stream: &'a Stream,
        to: DeviceSlice<'l, u8>,
    ) -> RingUpload<'a, 'l> {
        RingUpload { ring: self, wipes: true, stream, to, sent: 0 }
    }

    /// Starts a job of several copies.
    pub fn session(&self) -> CopySession {
        CopySession(self.clone())
    }

    /// Passes the bytes of `from` to `take`, piece by piece and in order, after all earlier work on
    /// `stream`. Blocks until done; later pieces are copied while `take` runs.
    ///
    /// Errors: faults of the copies; those of `take`.
    pub fn download<E: From<DeviceFault>>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.download_batches(true, stream, from, |pieces| pieces.iter().try_for_each(|p| take(p)))
    }

    fn download_batches<E: From<DeviceFault>>(
        &self,
        wipes: bool,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        take: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let done = self.receive(wipes, stream, from, take);
        if done.is_err() {
            // Wipe chunks that `take` has not received, once their copies have completed.
            let _waited = stream.synchronize();
            self.wipe();
        }
        done
    }

    fn receive<E: From<DeviceFault>>(
        &self,
        wipes: bool,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        mut take: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut under_way = VecDeque::new();
        let mut asked = 0;
        while asked < from.len() || !under_way.is_empty() {
            // To avoid deadlock, a thread that holds a chunk never waits for another one.
            let chunk = match under_way.is_empty() {
                _ if asked == from.len() || under_way.len() == self.0.chunks_per_copy_max => None,
                true => Some(self.0.take()?),
                false => self.0.try_take(),
            };
            if let Some(mut chunk) = chunk {
                let bytes = (from.len() - asked).min(self.0.chunk_bytes);
                let part = from.slice(asked, bytes).expect("asked < len");
                chunk.receive(stream, part)?;
                under_way.push_back(chunk);
                asked += bytes;
            } else if let Some(mut first) = under_way.pop_front() {
                first.wait()?;
                let mut there = vec![first];
                while under_way.front().is_some_and(ChunkGuard::is_copied) {
                    let mut next = under_way.pop_front().expect("checked above");
                    next.wait()?;
                    there.push(next);
                }
                let pieces: Vec<&[u8]> = there.iter_mut().map(|chunk| &*chunk.bytes(0).0).collect();
                take(&pieces)?;
                if wipes {
                    there.iter_mut().for_each(ChunkGuard::wipe);
                }
            }
        }
        Ok(())
    }

    /// Wipes idle chunks whose copy has completed. Concurrent callers share the work.
    pub fn wipe(&self) {
        while let Some(mut taken) = self.0.take_dirty() {
            taken.wipe();
        }
    }
}

impl CopySession {
    /// Like [`StagingRing::upload`], but the chunks are wiped when `self` is dropped.
    pub fn upload<'a, 'l>(
        &'a self,
        stream: &'a Stream,
        to: DeviceSlice<'l, u8>,
    ) -> RingUpload<'a, 'l> {
        RingUpload { ring: &self.0, wipes: false, stream, to, sent: 0 }
    }

    /// Like [`StagingRing::download`], but passes `take` all pieces that have arrived, in order.
    ///
    /// Errors: those of [`StagingRing::download`].
    pub fn download<E: From<DeviceFault>>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        take: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.download_batches(false, stream, from, take)
    }
}

impl Drop for CopySession {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl RingInner {
    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<RingChunk>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a chunk that no copy uses; waits for one.
    fn take(&self) -> Result<ChunkGuard<'_>, DeviceFault> {
        let mut idle = self.idle();
        let chunk = loop {
            match idle.pop_front() {
                Some(chunk) => break chunk,
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(idle);
        let mut taken = ChunkGuard { ring: self, chunk: Some(chunk) };
        taken.wait()?;
        Ok(taken)
    }

    /// Takes between 1 and `most` chunks: waits for the first, adds those that are idle.
    fn take_some(&self, most: usize) -> Result<Vec<ChunkGuard<'_>>, DeviceFault> {
        // See `receive`: no waiting while holding a chunk.
        let mut chunks = vec![self.take()?];
        while chunks.len() < most
            && let Some(chunk) = self.try_take()
        {
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// Takes a chunk that no copy uses, if there is one now.
    fn try_take(&self) -> Option<ChunkGuard<'_>> {
        let mut idle = self.idle();
        let free = |chunk: &RingChunk| chunk.copy.as_ref().is_none_or(is_reached_or_faulty);
        let at = idle.iter().position(free)?;
        let chunk = idle.remove(at).map(|chunk| RingChunk { copy: None, ..chunk });
        Some(ChunkGuard { ring: self, chunk })
    }

    fn take_dirty(&self) -> Option<ChunkGuard<'_>> {
        let mut idle = self.idle();
        let dirty = |chunk: &RingChunk| {
            chunk.used > 0 && chunk.copy.as_ref().is_none_or(is_reached_or_faulty)
        };
        let at = idle.iter().position(dirty)?;
        let chunk = idle.remove(at).map(|chunk| RingChunk { copy: None, ..chunk });
        Some(ChunkGuard { ring: self, chunk })
    }
}

fn is_reached_or_faulty(event: &Event) -> bool {
    event.is_reached().unwrap_or(false)
}

impl ChunkGuard<'_> {
    fn chunk(&mut self) -> &mut RingChunk {
        self.chunk.as_mut().expect("present until drop")
    }

    /// Whether no copy uses the bytes.
    fn is_copied(&self) -> bool {
        self.chunk
            .as_ref()
            .is_some_and(|chunk| chunk.copy.as_ref().is_none_or(is_reached_or_faulty))
    }

    /// Waits until no copy uses the bytes.
    fn wait(&mut self) -> Result<(), DeviceFault> {
        let chunk = self.chunk();
        if let Some(copy) = &chunk.copy {
            copy.synchronize()?;
            chunk.copy = None;
        }
        Ok(())
    }

    /// The first `at_least` bytes, or the used bytes if there are more; and the chunk's index.
    fn bytes(&mut self, at_least: usize) -> (&mut [u8], usize) {
        let (base, width) = (self.ring.base, self.ring.chunk_bytes);
        let chunk = self.chunk();
        assert!(chunk.copy.is_none() && at_least <= width, "a copy is still under way");
        let (at, bytes) = (chunk.index * width, at_least.max(chunk.used));
        // SAFETY: initialised bytes of this chunk, which no copy uses (just checked) and no other
        // thread reaches while the chunk is taken.
        (unsafe { slice::from_raw_parts_mut(base.add(at), bytes) }, chunk.index)
    }

    fn address(&mut self) -> *mut u8 {
        let at = self.chunk().index * self.ring.chunk_bytes;
        // SAFETY: inside the allocation.
        unsafe { self.ring.base.add(at) }
    }

    /// Starts the copy of the chunk's first `to.len()` bytes to the device.
    fn send(&mut self, stream: &Stream, to: DeviceSlice<'_, u8>) -> Result<(), DeviceFault> {
        let (from, bytes, to) = (self.address(), to.len(), to.address(stream)?);
        assert!(bytes <= self.ring.chunk_bytes, "a copy fits in one chunk");
        // SAFETY: the chunk is not touched until the event recorded after the copy is reached, and
        // the span's lease outlives all work on it.
        unsafe { stream.copy_in(to, from, bytes) }?;
        self.chunk().copy = Some(stream.record_or_drain()?);
        Ok(())
    }

    /// Starts the copy of `from` into the chunk; the bytes are valid after [`ChunkGuard::wait`].
    fn receive(&mut self, stream: &Stream, from: DeviceSlice<'_, u8>) -> Result<(), DeviceFault> {
        let (to, bytes, from) = (self.address(), from.len(), from.address(stream)?);
        assert!(bytes <= self.ring.chunk_bytes, "a copy fits in one chunk");
        if self.chunk().used > bytes {
            self.wipe();
        }
        self.chunk().used = bytes;
        // SAFETY: see `send`.
        unsafe { stream.copy_out(to, from, bytes) }?;
        self.chunk().copy = Some(stream.record_or_drain()?);
        Ok(())
    }

    /// Zeroes the used bytes.
    fn wipe(&mut self) {
        let bytes = self.bytes(0).0;
        // Wiping by words is eight times as fast as by bytes.
        let (head, words, tail) = bytemuck::pod_align_to_mut::<u8, u64>(bytes);
        head.zeroize();
        words.zeroize();
        tail.zeroize();
        self.chunk().used = 0;
    }
}

impl Drop for ChunkGuard<'_> {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.ring.idle().push_back(chunk);
            self.ring.returned.notify_one();
        }
    }
}

impl Drop for RingInner {
    fn drop(&mut self) {
        let base = self.base;
        // SAFETY: allocated in `take`, freed once; the driver waits for copies that use it.
        let free = || unsafe { result::free_host(base.cast()) };
        let _gone = self.context.call("cuMemFreeHost", free);
    }
}
