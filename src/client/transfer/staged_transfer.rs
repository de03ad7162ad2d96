//! Copies to and from memory shared with the server. During an upload, the client tells the server
//! what it has copied.

use std::time::Duration;

use tokio::time::Instant;

use super::{copy_pool::CopyPool, payload::OutgoingBytes};
use crate::wire::v1;
use crate::{
    Progress,
    staging::{PAGE_BYTES, StagedMemory},
};

/// A payload is copied in about this many pieces, so that the server begins before the last one.
const PIECES: usize = 32;
const PIECE_BYTES_MIN: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 1 << 20;
/// A payload of at most this size is announced when all of it is copied: an MSM in two passes takes
/// longer than the copy (`benches/experiments/transport.md`).
const ANNOUNCED_AT_ONCE_MAX: usize = 32 << 20;
/// Bytes that are copied while the caller's thread waits.
const BATCH_BYTES: usize = 64 << 20;

pub(crate) struct StagedUpload<'a> {
    payload: &'a OutgoingBytes<'a>,
    memory: &'a StagedMemory,
    /// Where the payload begins in the memory.
    start: usize,
    /// Bytes that were copied.
    done: usize,
    copies: &'a CopyPool,
    progress: Option<Progress>,
    /// The total that `progress` reports.
    total: u64,
    begun: Instant,
    elapsed: Duration,
}

fn piece_bytes(len: usize) -> usize {
    (len / PIECES).next_multiple_of(PAGE_BYTES as usize).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
}

/// Copies a result from byte `start` of `memory`, with several threads.
pub(crate) fn copy_result(memory: &StagedMemory, start: usize, out: &mut [u8], copies: &CopyPool) {
    let (len, piece) = (out.len(), piece_bytes(out.len()));
    let pieces = out.chunks_mut(piece).enumerate().collect();
    copies.map(len, pieces, |(number, part)| memory.read(start + number * piece, part));
}

impl<'a> StagedUpload<'a> {
    /// Copies to byte `start` of `memory`.
    pub fn new(
        payload: &'a OutgoingBytes<'_>,
        memory: &'a StagedMemory,
        start: usize,
        copies: &'a CopyPool,
    ) -> Self {
        let (total, begun, elapsed) = (payload.len(), Instant::now(), Duration::ZERO);
        Self { payload, memory, start, done: 0, copies, progress: None, total, begun, elapsed }
    }

    /// Reports progress toward `total` bytes.
    pub fn with_progress(self, progress: Option<Progress>, total: u64) -> Self {
        Self { progress, total, ..self }
    }

    /// The header of the upload.
    pub fn header(&self, encoding: i32, count: u64) -> v1::RegionUpload {
        let v1::RegionPlace { region_id, offset } = self.memory.place(self.start as u64);
        v1::RegionUpload { region_id, offset, encoding, count }
    }

    /// The most announcements that the payload takes.
    pub fn announcements(&self) -> usize {
        let len = self.len();
        match self.is_announced_at_once() {
            true => 1,
            false => len.div_ceil(piece_bytes(len)) + len.div_ceil(BATCH_BYTES),
        }
    }

    pub fn is_done(&self) -> bool {
        self.done == self.len()
    }

    /// Time from the first piece to the last one.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn len(&self) -> usize {
        self.payload.len() as usize
    }

    fn is_announced_at_once(&self) -> bool {
        self.len() <= ANNOUNCED_AT_ONCE_MAX
    }

    /// Copies the next pieces with several threads, each of which passes on what it has copied.
    /// Returns false after the last piece.
    pub fn copy_batch(&mut self, written: impl Fn(v1::WrittenRange) + Sync) -> bool {
        if self.done == 0 {
            self.begun = Instant::now();
        }
        let (len, from) = (self.len(), self.done);
        let (piece, end) = (piece_bytes(len), len.min(from + BATCH_BYTES));
        let starts: Vec<_> = (from..end).step_by(piece).collect();
        let (payload, memory, at_once) = (self.payload, self.memory, self.is_announced_at_once());
        self.copies.map(end - from, starts, |at| {
            let part = at..end.min(at + piece);
            let (offset, length) = (at as u64, part.len() as u64);
            payload.with_range(part, |bytes| memory.write(self.start + at, bytes));
            if !at_once {
                written(v1::WrittenRange { offset, length });
            }
        });
        if at_once {
            written(v1::WrittenRange { offset: 0, length: end as u64 });
        }
        self.done = end;
        self.elapsed = self.begun.elapsed();
        if let Some(progress) = self.progress.as_ref().filter(|_| end > from) {
            progress(end as u64, self.total);
        }
        end < len
    }
}
