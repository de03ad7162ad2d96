//! Pinned host memory in chunks, the staging area for copies to and from a device. A chunk is
//! filled while earlier ones are copied, and reused once its copy has completed.
//!
//! Pinned chunks are wiped when a job ends, not after each copy: wiping takes longer than the link.

mod chunks;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use zeroize::Zeroizing;

use self::chunks::{ChunkGuard, PinnedChunks};
use super::{DeviceContext, DeviceFault, DeviceSlice, Stream};

/// The chunks of one device. Clones share them.
#[derive(Clone)]
pub struct StagingRing {
    chunks: Arc<PinnedChunks>,
    /// Chunks that one upload or download may hold at a time: half of them.
    chunks_per_copy_max: usize,
}

/// The copies of one job. Their data in chunks is wiped once, on drop: wiping after each copy would
/// take longer than the link. Drop does not wipe chunks that a copy still uses, so wait for streams
/// with uploads first.
pub struct CopySession {
    ring: StagingRing,
    /// Bytes that went through the ring.
    staged_bytes: AtomicU64,
}

/// An upload to a device, in order. Drop waits for the copies and wipes the chunks, unless it
/// belongs to a [`CopySession`], which wipes them later.
pub struct RingUpload<'a> {
    ring: &'a StagingRing,
    session: Option<&'a CopySession>,
    stream: &'a Stream,
    to: DeviceSlice<'a, u8>,
    sent: usize,
}

impl StagingRing {
    pub(super) fn allocate(
        context: &DeviceContext,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<Self, DeviceFault> {
        Ok(Self {
            chunks: Arc::new(PinnedChunks::allocate(context, chunk_bytes, chunks)?),
            chunks_per_copy_max: (chunks / 2).max(1),
        })
    }

    pub fn chunk_bytes(&self) -> usize {
        self.chunks.chunk_bytes
    }

    pub fn upload<'a>(&'a self, stream: &'a Stream, to: DeviceSlice<'a, u8>) -> RingUpload<'a> {
        RingUpload { ring: self, session: None, stream, to, sent: 0 }
    }

    pub fn session(&self) -> CopySession {
        CopySession { ring: self.clone(), staged_bytes: AtomicU64::new(0) }
    }

    /// Passes the bytes of `from` to `take`, piece by piece and in order, after all earlier work on
    /// `stream`. Blocks until done; later pieces are copied while `take` runs.
    pub fn download<E: From<DeviceFault>>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let take_all = |pieces: &[&[u8]]| pieces.iter().try_for_each(|piece| take(piece));
        self.download_pieces(stream, from, take_all, |chunk| chunk.wipe())
    }

    /// Calls `finish` for each chunk whose bytes were taken.
    fn download_pieces<E: From<DeviceFault>>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        mut take: impl FnMut(&[&[u8]]) -> Result<(), E>,
        finish: impl Fn(&mut ChunkGuard<'_>),
    ) -> Result<(), E> {
        let mut receive = || -> Result<(), E> {
            let mut under_way = VecDeque::new();
            let mut started = 0;
            while started < from.len() || !under_way.is_empty() {
                let is_full = under_way.len() == self.chunks_per_copy_max;
                let chunk = if started == from.len() || is_full {
                    None
                } else if under_way.is_empty() {
                    Some(self.chunks.take()?)
                } else {
                    self.chunks.try_take()
                };
                if let Some(mut chunk) = chunk {
                    let bytes = (from.len() - started).min(self.chunks.chunk_bytes);
                    let part = from.slice(started, bytes).expect("started < len");
                    chunk.receive(stream, part)?;
                    under_way.push_back(chunk);
                    started += bytes;
                } else if let Some(mut first) = under_way.pop_front() {
                    first.wait()?;
                    let mut copied = vec![first];
                    while under_way.front().is_some_and(ChunkGuard::is_copied) {
                        let mut next = under_way.pop_front().expect("checked above");
                        next.wait()?;
                        copied.push(next);
                    }
                    take(&copied.iter_mut().map(ChunkGuard::received).collect::<Vec<_>>())?;
                    copied.iter_mut().for_each(&finish);
                }
            }
            Ok(())
        };
        receive().inspect_err(|_| {
            // Wipe chunks that `take` has not received, once their copies have completed.
            let _waited = stream.synchronize();
            self.wipe();
        })
    }

    /// Wipes idle chunks whose copy has completed. Concurrent callers share the work.
    pub fn wipe(&self) {
        self.chunks.wipe();
    }
}

impl CopySession {
    /// Like [`StagingRing::upload`], but the chunks are wiped when `self` is dropped.
    pub fn upload<'a>(&'a self, stream: &'a Stream, to: DeviceSlice<'a, u8>) -> RingUpload<'a> {
        RingUpload { ring: &self.ring, session: Some(self), stream, to, sent: 0 }
    }

    /// Like [`StagingRing::download`], but passes `take` all pieces that have arrived, in order.
    pub fn download<E: From<DeviceFault>>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
        take: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.count_staged(from.len());
        self.ring.download_pieces(stream, from, take, |_| {})
    }

    /// The bytes of a slice, after all earlier work on the stream.
    pub fn read(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, u8>,
    ) -> Result<Zeroizing<Vec<u8>>, DeviceFault> {
        let mut all = Zeroizing::new(Vec::with_capacity(from.len()));
        self.download(stream, from, |pieces| {
            pieces.iter().for_each(|bytes| all.extend_from_slice(bytes));
            Ok::<_, DeviceFault>(())
        })?;
        Ok(all)
    }

    fn count_staged(&self, bytes: usize) {
        self.staged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that the job has copied through the ring.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes.load(Ordering::Relaxed)
    }

    /// Like [`StagingRing::wipe`], unless the job has not used the ring.
    pub fn wipe(&self) {
        if self.staged_bytes() > 0 {
            self.ring.wipe();
        }
    }
}

impl Drop for CopySession {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl RingUpload<'_> {
    /// Appends `bytes`; `KernelMismatch` if they exceed the slice.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), DeviceFault> {
        self.fill_chunks(bytes.len(), 1, |chunks| {
            for chunk in chunks {
                let (now, later) = bytes.split_at(chunk.len());
                chunk.copy_from_slice(now);
                bytes = later;
            }
            Ok(())
        })
    }

    /// Skips the next `bytes` bytes of the slice. After skipping past its end, writes are refused.
    pub fn skip(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Appends `bytes` bytes, which `fill` writes directly into the chunks, in order. Each call
    /// gets all idle chunks, at most half of the ring: threads that fill them together are woken
    /// once for all.
    ///
    /// Errors: those of `fill`; `KernelMismatch` if the bytes exceed the slice.
    pub fn fill_idle_chunks<E: From<DeviceFault>>(
        &mut self,
        bytes: usize,
        fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.fill_chunks(bytes, self.ring.chunks_per_copy_max, fill)
    }

    fn fill_chunks<E: From<DeviceFault>>(
        &mut self,
        bytes: usize,
        chunks_max: usize,
        mut fill: impl FnMut(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(to) = self.to.slice(self.sent, bytes) else {
            let left = self.to.len().saturating_sub(self.sent);
            let problem = format!("{bytes} bytes, but only {left} are left in the span");
            return Err(DeviceFault::mismatch("upload", problem).into());
        };
        if let Some(session) = self.session {
            session.count_staged(bytes);
        }
        let chunk_bytes = self.ring.chunk_bytes();
        let mut sent = 0;
        while sent < bytes {
            let mut left = bytes - sent;
            let count_max = chunks_max.min(left.div_ceil(chunk_bytes));
            let mut chunks = self.ring.chunks.take_some(count_max)?;
            let mut parts: Vec<_> = chunks
                .iter_mut()
                .map(|chunk| {
                    let now = left.min(chunk_bytes);
                    left -= now;
                    chunk.bytes_to_fill(now)
                })
                .collect();
            fill(&mut parts)?;
            for mut chunk in chunks {
                let now = (bytes - sent).min(chunk_bytes);
                chunk.send(self.stream, to.slice(sent, now).expect("within the slice"))?;
                sent += now;
                self.sent += now;
            }
        }
        Ok(())
    }
}

impl Drop for RingUpload<'_> {
    fn drop(&mut self) {
        if self.session.is_none() {
            // A fault was already reported and the device disabled; `wipe` skips chunks that a copy
            // may still read.
            let _waited = self.stream.synchronize();
            self.ring.wipe();
        }
    }
}
