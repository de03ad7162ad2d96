//! A payload received out of order, over several connections, while a job reads it.

use std::{
    fmt, mem,
    ops::Range,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::{
    PayloadPool, QuotaPermit, RangeSet, RegionSlice, SharedPiece, payload_memory::PayloadMemory,
};
use crate::{
    error::{Error, FieldProblem, Result},
    region::DeviceBytes,
    sync::{Mutex, MutexGuard},
};

/// More fragments than the stripes of an honest sender leave.
const FRAGMENTS_MAX: usize = 4096;

/// A payload that has used at most this many bytes is wiped by the thread that drops it: that takes
/// at most 3 us, and waking another thread 2 to 8 (`benches/experiments/transport.md`).
const WIPED_AT_ONCE_MAX: u64 = 64 << 10;

/// Called when bytes are received or the upload fails; dropped with its owner.
pub type ProgressListener = dyn Fn() + Send + Sync;

/// A payload of known length. Each byte is written once; later copies of it are ignored. Zeroed on
/// drop; `Debug` prints no content.
pub struct UploadBuffer {
    pub(super) memory: PayloadMemory,
    state: Mutex<ReceiveState>,
}

#[derive(Default)]
struct ReceiveState {
    /// Ranges that a writer has claimed, so that no byte has two writers.
    claimed: RangeSet,
    /// Ranges that another process may write.
    placed: RangeSet,
    received: RangeSet,
    failure: Option<Error>,
    last_received: Option<Instant>,
    listeners: Vec<Weak<ProgressListener>>,
}

impl UploadBuffer {
    /// A payload of `len` bytes, none received yet. `permits` are returned once its memory is
    /// wiped.
    pub fn new(pool: &PayloadPool, len: u64, permits: Vec<QuotaPermit>) -> Self {
        Self { memory: PayloadMemory::new(pool.clone(), len, permits), state: Mutex::default() }
    }

    /// A payload of received bytes.
    ///
    /// Errors: `Exhausted`.
    pub fn from_bytes(pool: &PayloadPool, bytes: &[u8], permits: Vec<QuotaPermit>) -> Result<Self> {
        let upload = Self::new(pool, bytes.len() as u64, permits);
        upload.write(0, bytes)?;
        Ok(upload)
    }

    /// A payload in memory shared with a client, with bytes that the client has written.
    pub fn in_region(pool: &PayloadPool, region: RegionSlice) -> Self {
        let upload = Self::to_region(pool, region);
        upload.mark_received(std::slice::from_ref(&(0..upload.len())));
        upload
    }

    /// A payload in memory shared with a client, to be written.
    pub fn to_region(pool: &PayloadPool, region: RegionSlice) -> Self {
        Self { memory: PayloadMemory::in_region(pool.clone(), region), state: Mutex::default() }
    }

    pub fn len(&self) -> u64 {
        self.memory.len
    }

    /// Whether the payload lies in memory shared with a client.
    pub fn is_in_region(&self) -> bool {
        self.memory.region.is_some()
    }

    /// False if a client has given back pages of the region that the payload lies in.
    pub fn is_intact(&self) -> bool {
        self.memory.shared().is_intact()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes received bytes at `offset` and returns how many of them were new.
    ///
    /// Errors: `Invalid` if they exceed the payload or it has too many fragments; `Exhausted` if
    /// there is no memory; the upload's failure.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let fresh = self.claim("chunk", "chunk.offset", offset, bytes.len() as u64)?;
        for range in &fresh {
            let from = (range.start - offset) as usize..(range.end - offset) as usize;
            self.memory.write(range.start, &bytes[from]);
        }
        Ok(self.mark_received(&fresh))
    }

    /// Receives bytes that the client has written to the payload's region, and returns how many of
    /// them are new.
    ///
    /// Errors: those of [`Self::write`], except `Exhausted`.
    pub fn receive_written(&self, offset: u64, len: u64) -> Result<u64> {
        let fresh = self.claim("written", "written.offset", offset, len)?;
        Ok(self.mark_received(&fresh))
    }

    /// The parts of a range that nobody has claimed before. They have memory now.
    fn claim(
        &self,
        field: &'static str,
        offset_field: &'static str,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Range<u64>>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let end = end.ok_or(Error::field(field, FieldProblem::TooLarge { max: self.len() }))?;
        let mut state = self.state_unless_failed()?;
        if state.claimed.fragments() >= FRAGMENTS_MAX {
            return Err(Error::field(offset_field, FieldProblem::OutOfRange));
        }
        self.memory.allocate(&(offset..end))?;
        Ok(state.claimed.insert(offset..end))
    }

    /// Copies `out.len()` bytes from `start` on. They must have been received.
    pub fn read(&self, start: u64, out: &mut [u8]) {
        debug_assert!(self.has_received(start..start + out.len() as u64), "reads received bytes");
        self.memory.read(start, out);
    }

    /// A copy of `len` bytes from `start` on. They must have been received.
    pub fn copy(&self, start: u64, len: usize) -> Vec<u8> {
        let range = start..start + len as u64;
        debug_assert!(self.has_received(range.clone()), "copies received bytes");
        self.memory.copy(range)
    }

    /// Where the bytes of `range`, which must have been received, lie.
    pub fn shared_pieces(&self, range: Range<u64>) -> Vec<SharedPiece> {
        debug_assert!(self.has_received(range.clone()), "locates received bytes");
        self.memory.pieces(range)
    }

    /// Allocates memory for the bytes of `range` that have none, and returns where all of them lie.
    ///
    /// Errors: `Exhausted`; the upload's failure.
    pub fn place(&self, range: Range<u64>) -> Result<Vec<SharedPiece>> {
        let mut state = self.state_unless_failed()?;
        self.memory.allocate(&range)?;
        state.placed.insert(range.clone());
        drop(state);
        Ok(self.memory.pieces(range))
    }

    /// The bytes of `range` were written where [`Self::place`] says: they count as received.
    pub fn mark_written(&self, range: Range<u64>) {
        self.state.lock().claimed.insert(range.clone());
        self.mark_received(&[range]);
    }

    /// The longest prefix of `range` that lies in pinned memory; `None` if that is empty. All of
    /// `range` must have been received.
    pub(super) fn device_source(&self, range: Range<u64>) -> Option<Vec<DeviceBytes<'_>>> {
        debug_assert!(self.has_received(range.clone()), "devices read received bytes");
        let parts = self.memory.pinned_parts(range);
        let shared = self.memory.shared();
        let slice = |part: Range<usize>| shared.for_device(part.start, part.len());
        (!parts.is_empty()).then(|| parts.into_iter().map(slice).collect())
    }

    /// Claims the longest prefix of `range` that can lie in pinned memory. `None` if that is empty
    /// or if part of it already has a writer. [`Self::mark_written`] follows.
    ///
    /// Errors: `Exhausted`; the upload's failure.
    pub(super) fn claim_device_destination(
        &self,
        range: Range<u64>,
    ) -> Result<Option<Vec<DeviceBytes<'_>>>> {
        let mut state = self.state_unless_failed()?;
        self.memory.allocate(&range)?;
        let parts = self.memory.pinned_parts(range.clone());
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let pinned = range.start..range.start + bytes;
        if bytes == 0 || !state.claimed.parts(&pinned).is_empty() {
            return Ok(None);
        }
        state.claimed.insert(pinned);
        drop(state);
        let shared = self.memory.shared();
        let slice = |part: Range<usize>| shared.for_device(part.start, part.len());
        Ok(Some(parts.into_iter().map(slice).collect()))
    }

    pub fn has_received(&self, range: Range<u64>) -> bool {
        self.state.lock().received.contains(&range)
    }

    pub fn is_complete(&self) -> bool {
        self.received() == self.len()
    }

    pub fn received(&self) -> u64 {
        self.state.lock().received.covered()
    }

    pub fn missing(&self) -> Vec<Range<u64>> {
        self.state.lock().received.gaps(&(0..self.len()))
    }

    /// Fails the upload: writers, waiters and readers get `error`. The first failure is kept.
    pub fn fail(&self, error: Error) {
        self.state.lock().failure.get_or_insert(error);
        self.notify();
    }

    pub fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    /// Time from `begun` to the last received byte; zero if it was received before.
    pub fn receive_time_since(&self, begun: Instant) -> Duration {
        let last = self.state.lock().last_received;
        last.map_or(Duration::ZERO, |last| last.saturating_duration_since(begun))
    }

    /// Calls `listener` after each change until its owner drops it.
    pub fn listen(&self, listener: &Arc<ProgressListener>) {
        let mut state = self.state.lock();
        // `notify` removes dead listeners too, but is not called on a complete payload.
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(Arc::downgrade(listener));
    }

    /// Returns the number of bytes.
    fn mark_received(&self, ranges: &[Range<u64>]) -> u64 {
        if ranges.is_empty() {
            return 0;
        }
        let mut state = self.state.lock();
        state.last_received = Some(Instant::now());
        for range in ranges {
            state.received.insert(range.clone());
        }
        drop(state);
        self.notify();
        ranges.iter().map(|range| range.end - range.start).sum()
    }

    fn notify(&self) {
        let mut state = self.state.lock();
        state.listeners.retain(|listener| listener.strong_count() > 0);
        let listeners: Vec<_> = state.listeners.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        listeners.iter().for_each(|listener| listener());
    }

    fn state_unless_failed(&self) -> Result<MutexGuard<'_, ReceiveState>> {
        let state = self.state.lock();
        state.failure.clone().map_or(Ok(state), Err)
    }
}

impl Drop for UploadBuffer {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let mut used = mem::take(&mut state.claimed);
        for placed in state.placed.parts(&(0..self.memory.len)) {
            used.insert(placed);
        }
        let is_small = used.covered() <= WIPED_AT_ONCE_MAX;
        self.memory.used = used;
        if is_small {
            return;
        }
        let pool = self.memory.pool.clone();
        let empty = PayloadMemory::new(pool.clone(), 0, Vec::new());
        pool.wiper().drop_later(mem::replace(&mut self.memory, empty));
    }
}

impl fmt::Debug for UploadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadBuffer({} of {} bytes)", self.received(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, thread};

    use super::{super::pool::BLOCK, *};

    fn pool() -> PayloadPool {
        PayloadPool::new(0, 0).unwrap()
    }

    /// Bytes of the pages that the pool's memory has.
    fn resident(pool: &PayloadPool) -> u64 {
        rustix::fs::fstat(pool.memory().file()).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn blocks_are_wiped_and_used_again() {
        let pool = pool();
        let bytes = vec![7; BLOCK as usize];
        let upload = UploadBuffer::from_bytes(&pool, &bytes, vec![]).unwrap();
        assert_eq!((pool.spare_bytes(), upload.copy(0, bytes.len())), (0, bytes));
        let place = upload.shared_pieces(0..BLOCK);
        drop(upload);
        // Dropped after the payload.
        let (sender, receiver) = channel::<()>();
        pool.wiper().drop_later(sender);
        assert!(receiver.recv().is_err());
        assert_eq!(pool.spare_bytes(), BLOCK);
        let next = UploadBuffer::new(&pool, BLOCK, vec![]);
        next.write(3, &[1]).unwrap();
        assert_eq!((pool.spare_bytes(), next.place(0..BLOCK).unwrap()), (0, place));
        let bytes = next.memory.copy(0..BLOCK);
        assert_eq!((bytes[3], bytes.iter().map(|byte| u64::from(*byte)).sum()), (1, 1_u64));
    }

    #[test]
    fn memory_is_taken_as_bytes_are_received() {
        let pool = pool();
        let upload = UploadBuffer::new(&pool, 4 * BLOCK, vec![]);
        assert_eq!(resident(&pool), 0, "a header takes no memory");
        assert!(upload.memory.region.is_none());
        upload.write(2 * BLOCK + 5, &[1; 10_000]).unwrap();
        assert!(resident(&pool) <= 2 << 20, "whole pages only");
        assert_eq!(pool.take_block(BLOCK).unwrap().start, BLOCK, "one block is taken");
    }

    #[test]
    fn overlapping_pieces_from_several_writers_give_the_payload() {
        const CHUNK: usize = 256 << 10;
        // A full block and a tail.
        let len = BLOCK as usize + 3 * CHUNK + 7;
        let payload: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let upload = UploadBuffer::new(&pool(), payload.len() as u64, vec![]);
        thread::scope(|scope| {
            for writer in 0..4 {
                let upload = &upload;
                let payload = &payload;
                scope.spawn(move || {
                    // Pieces of an odd size overlap: every byte is offered more than once.
                    for (i, start) in (0..payload.len()).step_by(10_000).enumerate().rev() {
                        if i % 2 == writer % 2 {
                            let end = (start + 25_000).min(payload.len());
                            upload.write(start as u64, &payload[start..end]).unwrap();
                        }
                    }
                });
            }
        });
        assert!(upload.is_complete());
        assert_eq!(upload.copy(0, payload.len()), payload);
        for boundary in [CHUNK, 8 * CHUNK, BLOCK as usize] {
            let mut middle = vec![0; 100];
            upload.read(boundary as u64 - 50, &mut middle);
            assert_eq!(middle, payload[boundary - 50..boundary + 50]);
        }
    }

    #[test]
    fn refuses_bytes_beyond_the_end_and_too_many_fragments() {
        let upload = UploadBuffer::new(&pool(), 100_000, vec![]);
        for (offset, len) in [(100_000, 1), (99_999, 2), (u64::MAX, 2)] {
            let refused = upload.write(offset, &vec![0; len]).unwrap_err();
            assert_eq!(refused, Error::field("chunk", FieldProblem::TooLarge { max: 100_000 }));
        }
        let refused = (0..50_000).find_map(|i| upload.write(2 * i, &[1]).err());
        assert_eq!(refused, Some(Error::field("chunk.offset", FieldProblem::OutOfRange)));
    }

    #[test]
    fn dropped_listeners_of_a_complete_payload_are_removed() {
        let upload = UploadBuffer::from_bytes(&pool(), &[1], vec![]).unwrap();
        let stays: Arc<ProgressListener> = Arc::new(|| ());
        upload.listen(&stays);
        for _ in 0..100 {
            upload.listen(&(Arc::new(|| ()) as Arc<ProgressListener>));
        }
        assert!(upload.state.lock().listeners.len() <= 2);
    }

    #[test]
    fn writers_get_the_first_failure() {
        let upload = UploadBuffer::new(&pool(), 10, vec![]);
        upload.fail(Error::Cancelled);
        upload.fail(Error::Deadline);
        assert_eq!(upload.write(0, &[1]), Err(Error::Cancelled));
        assert_eq!(upload.failure(), Some(Error::Cancelled));
    }
}
