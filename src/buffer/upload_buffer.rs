//! A payload received out of order, over several connections, while a job reads it.

use std::{
    fmt, mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{QuotaPermit, RangeSet, drop_in_background, group::PayloadMemory};
use crate::error::{Error, FieldProblem, Result};

/// More fragments than the stripes of an honest sender leave.
const FRAGMENTS_MAX: usize = 4096;

/// Called when bytes are received or the upload fails; dropped with its owner.
pub type ProgressListener = dyn Fn() + Send + Sync;

/// A payload of known length. Each byte is written once; later copies of it are ignored. Zeroed on
/// drop; `Debug` prints no content.
pub struct UploadBuffer {
    memory: PayloadMemory,
    state: Mutex<ReceiveState>,
    progress: Notify,
    /// Returned with the memory.
    permits: Vec<QuotaPermit>,
}

#[derive(Default)]
struct ReceiveState {
    /// Ranges that a writer has claimed, so that no byte has two writers.
    claimed: RangeSet,
    /// Received ranges, which can be read.
    received: RangeSet,
    failure: Option<Error>,
    last_received: Option<Instant>,
    listeners: Vec<Weak<ProgressListener>>,
}

impl UploadBuffer {
    /// A payload of `len` bytes, none received yet. `held` is returned with its memory.
    pub fn new(len: u64, held: Vec<QuotaPermit>) -> Self {
        Self {
            memory: PayloadMemory::new(len),
            state: Mutex::default(),
            progress: Notify::new(),
            permits: held,
        }
    }

    /// A payload that is already complete.
    pub fn from_bytes(bytes: &[u8], held: Vec<QuotaPermit>) -> Self {
        let arrival = Self::new(bytes.len() as u64, held);
        arrival.write(0, bytes).expect("a new payload accepts all of its bytes");
        arrival
    }

    /// Bytes of the whole payload.
    pub fn len(&self) -> u64 {
        self.memory.len()
    }

    /// True for a payload without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes received bytes at `offset` and returns how many of them were new.
    ///
    /// Errors: `Invalid` if they exceed the payload or it has too many fragments; the upload's
    /// failure.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.len());
        let end = end.ok_or(Error::field("chunk", FieldProblem::TooLarge { max: self.len() }))?;
        let fresh = {
            let mut state = self.state();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.claimed.fragments() >= FRAGMENTS_MAX {
                return Err(Error::field("chunk.offset", FieldProblem::OutOfRange));
            }
            state.claimed.insert(offset..end)
        };
        for range in &fresh {
            let from = (range.start - offset) as usize..(range.end - offset) as usize;
            self.memory.write(range.start, &bytes[from]);
        }
        self.mark_all_received(&fresh);
        Ok(fresh.iter().map(|range| range.end - range.start).sum())
    }

    /// Copies `out.len()` bytes from `start` on. They must have been received.
    pub fn read(&self, start: u64, out: &mut [u8]) {
        debug_assert!(self.has_received(start..start + out.len() as u64), "reads received bytes");
        let mut at = 0;
        self.memory.for_each_piece(start, out.len(), |piece| {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        });
    }

    /// A copy of `len` bytes from `start` on. They must have been received.
    pub fn copy(&self, start: u64, len: usize) -> Vec<u8> {
        debug_assert!(self.has_received(start..start + len as u64), "copies received bytes");
        let mut bytes = Vec::with_capacity(len);
        self.memory.for_each_piece(start, len, |piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// True if all of `range` has been received.
    pub fn has_received(&self, range: Range<u64>) -> bool {
        self.state().received.contains(&range)
    }

    /// True if the whole payload has been received.
    pub fn is_complete(&self) -> bool {
        self.received() == self.len()
    }

    /// Number of bytes received.
    pub fn received(&self) -> u64 {
        self.state().received.covered()
    }

    /// Ranges not received yet.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.state().received.gaps(&(0..self.len()))
    }

    /// Fails the upload: writers, waiters and readers get `error`. The first failure is kept.
    pub fn fail(&self, error: Error) {
        self.state().failure.get_or_insert(error);
        self.notify();
    }

    /// The upload's failure, if it failed.
    pub fn failure(&self) -> Option<Error> {
        self.state().failure.clone()
    }

    /// Time from `begun` to the last byte received so far; zero if it was received before.
    pub fn receive_time_since(&self, begun: Instant) -> Duration {
        let last = self.state().last_received;
        last.map_or(Duration::ZERO, |last| last.saturating_duration_since(begun))
    }

    /// Resolves when bytes are received or the upload fails after this call.
    pub fn progress(&self) -> impl Future<Output = ()> + '_ {
        self.progress.notified()
    }

    /// Calls `listener` after each change until its owner drops it.
    pub fn listen(&self, listener: &Arc<ProgressListener>) {
        let mut state = self.state();
        // `notify` removes dead listeners too, but is not called on a complete payload.
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(Arc::downgrade(listener));
    }

    pub(super) fn memory(&self) -> &PayloadMemory {
        &self.memory
    }

    /// Claims `range` for a single writer. False if part of it is claimed already or it is empty.
    ///
    /// Errors: the upload's failure.
    pub(super) fn claim(&self, range: Range<u64>) -> Result<bool> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let free = state.claimed.gaps(&range) == [range.clone()];
        if free {
            state.claimed.insert(range);
        }
        Ok(free)
    }

    /// Marks a claimed range as received.
    pub(super) fn mark_received(&self, range: Range<u64>) {
        self.mark_all_received(&[range]);
    }

    fn mark_all_received(&self, fresh: &[Range<u64>]) {
        if fresh.is_empty() {
            return;
        }
        {
            let mut state = self.state();
            state.last_received = Some(Instant::now());
            for range in fresh {
                state.received.insert(range.clone());
            }
        }
        self.notify();
    }

    fn notify(&self) {
        self.progress.notify_waiters();
        let listeners: Vec<Arc<ProgressListener>> = {
            let mut state = self.state();
            state.listeners.retain(|listener| listener.strong_count() > 0);
            state.listeners.iter().filter_map(Weak::upgrade).collect()
        };
        listeners.iter().for_each(|listener| listener());
    }

    fn state(&self) -> MutexGuard<'_, ReceiveState> {
        lock(&self.state)
    }
}

impl Drop for UploadBuffer {
    fn drop(&mut self) {
        let memory = mem::replace(&mut self.memory, PayloadMemory::new(0));
        drop_in_background(DroppedPayload {
            memory: Some(memory),
            _held: mem::take(&mut self.permits),
        });
    }
}

/// Memory of a dropped payload, still to be wiped.
struct DroppedPayload {
    memory: Option<PayloadMemory>,
    _held: Vec<QuotaPermit>,
}

/// Threads that wipe one payload; each wipes at least 64 MiB, in about 7 ms.
const WIPERS: usize = 4;

impl Drop for DroppedPayload {
    /// Wipes on several threads, since the next payload needs the memory.
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        thread::scope(|scope| {
            let mut parts = memory.into_parts(WIPERS).into_iter();
            let first = parts.next();
            for part in parts {
                // If no thread can be spawned, this thread wipes the part.
                let _wiped = thread::Builder::new().spawn_scoped(scope, || drop(part));
            }
            drop(first);
        });
    }
}

impl fmt::Debug for UploadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadBuffer({} of {} bytes)", self.received(), self.len())
    }
}

/// A panic during a copy leaves bytes that are not marked as received, so the data stays sound.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{super::group::SLOT, *};

    #[test]
    fn overlapping_pieces_from_several_writers_give_the_payload() {
        // A group of segments and some slots.
        let len = (16 << 20) + 3 * SLOT + 7;
        let payload: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let arrival = UploadBuffer::new(payload.len() as u64, vec![]);
        thread::scope(|scope| {
            for writer in 0..4 {
                let (arrival, payload) = (&arrival, &payload);
                scope.spawn(move || {
                    // Pieces of an odd size overlap: every byte is offered more than once.
                    for (i, start) in (0..payload.len()).step_by(10_000).enumerate().rev() {
                        if i % 2 == writer % 2 {
                            let end = (start + 25_000).min(payload.len());
                            arrival.write(start as u64, &payload[start..end]).unwrap();
                        }
                    }
                });
            }
        });
        assert!(arrival.is_complete());
        let mut back = vec![0; payload.len()];
        arrival.read(0, &mut back);
        assert_eq!(back, payload);
        for border in [SLOT, 8 * SLOT, 16 << 20] {
            let mut middle = vec![0; 100];
            arrival.read(border as u64 - 50, &mut middle);
            assert_eq!(middle, payload[border - 50..border + 50]);
        }
    }

    #[test]
    fn refuses_bytes_beyond_the_end_and_too_many_fragments() {
        let arrival = UploadBuffer::new(100_000, vec![]);
        for (offset, len) in [(100_000, 1), (99_999, 2), (u64::MAX, 2)] {
            let refused = arrival.write(offset, &vec![0; len]).unwrap_err();
            assert_eq!(refused, Error::field("chunk", FieldProblem::TooLarge { max: 100_000 }));
        }
        let refused = (0..50_000).find_map(|i| arrival.write(2 * i, &[1]).err());
        assert_eq!(refused, Some(Error::field("chunk.offset", FieldProblem::OutOfRange)));
    }

    #[test]
    fn dropped_listeners_of_a_complete_payload_are_removed() {
        let arrival = UploadBuffer::from_bytes(&[1], vec![]);
        let stays: Arc<ProgressListener> = Arc::new(|| ());
        arrival.listen(&stays);
        for _ in 0..100 {
            arrival.listen(&(Arc::new(|| ()) as Arc<ProgressListener>));
        }
        assert!(lock(&arrival.state).listeners.len() <= 2);
    }

    #[test]
    fn writers_get_the_first_failure() {
        let arrival = UploadBuffer::new(10, vec![]);
        arrival.fail(Error::Cancelled);
        arrival.fail(Error::Deadline);
        assert_eq!(arrival.write(0, &[1]), Err(Error::Cancelled));
        assert_eq!(arrival.failure(), Some(Error::Cancelled));
    }
}
