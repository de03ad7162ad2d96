//! Copies to and from memory shared with the server. During an upload, the client tells the server
//! what it has copied.

use std::time::Duration;

use tokio::time::Instant;

use super::{copy_pool::CopyPool, payload::OutgoingBytes};
use crate::wire::v1;
use crate::{
    Client, Progress,
    error::ClientError,
    options::VectorInput,
    staging::{PAGE_BYTES, STAGED_BYTES_MIN, StagedMemory},
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

/// Memory for large inputs and outputs of a call.
pub(crate) struct StagedVectors {
    pub memory: StagedMemory,
    /// For each input, where it begins in the memory; `None` for those that travel otherwise.
    pub inputs: Vec<Option<u64>>,
    /// Like `inputs`, for outputs.
    pub outputs: Vec<Option<u64>>,
}

/// An input on its way to shared memory.
pub(crate) struct StagedUpload<'a> {
    /// Its index among the inputs.
    pub input: usize,
    payload: &'a OutgoingBytes<'a>,
    memory: &'a StagedMemory,
    /// Where the payload begins in the memory.
    start: usize,
    /// Bytes that were copied.
    done: usize,
    copies: &'a CopyPool,
    progress: Option<Progress>,
    begun: Option<Instant>,
    elapsed: Duration,
}

impl StagedVectors {
    /// Memory for the inputs of this process, and for `outputs`, of these numbers of bytes; vectors
    /// of less than `bytes_min` bytes have no place in it. `None` if the vectors are small, or if
    /// the server shares no memory.
    pub fn new(
        client: &Client,
        inputs: &[VectorInput<'_>],
        outputs: &[u64],
        bytes_min: u64,
    ) -> Option<Self> {
        let input_bytes = |input: &VectorInput<'_>| match input.payload()? {
            OutgoingBytes::Region { .. } => None,
            payload => Some(payload.len()),
        };
        let sent: u64 = inputs.iter().filter_map(input_bytes).sum();
        if sent + outputs.iter().sum::<u64>() < STAGED_BYTES_MIN {
            return None;
        }
        let mut end = 0_u64;
        let mut place = |bytes: u64| {
            let start = end.next_multiple_of(PAGE_BYTES);
            (bytes >= bytes_min).then(|| {
                end = start + bytes;
                start
            })
        };
        let inputs = inputs.iter().map(|input| input_bytes(input).and_then(&mut place)).collect();
        let outputs = outputs.iter().map(|bytes| place(*bytes)).collect();
        let memory = client.staged_memory(end)?;
        Some(Self { memory, inputs, outputs })
    }

    /// Where output number `index` is written, if to the memory.
    pub fn output_place(&self, index: usize) -> Option<v1::RegionPlace> {
        self.outputs[index].map(|start| self.memory.place(start))
    }

    /// Copies output number `index`, if it is in the memory, with several threads.
    pub fn copy_output(&self, index: usize, out: &mut [u8], copies: &CopyPool) {
        let Some(start) = self.outputs[index] else { return };
        let len = out.len();
        let piece = piece_bytes(len);
        let pieces = out.chunks_mut(piece).enumerate().collect();
        copies.map(len, pieces, |(number, part)| {
            self.memory.read(start as usize + number * piece, part);
        });
    }

    /// Ends the use of the memory after `error`, if the server does not write to it any more.
    pub fn release_after(self, error: &ClientError) {
        let is_unused = match self.outputs.iter().any(Option::is_some) {
            true => error.is_before_start(),
            // The job has ended, and wrote nothing here.
            false => matches!(error, ClientError::Refused(_)),
        };
        if is_unused {
            self.memory.release();
        }
    }
}

fn piece_bytes(len: usize) -> usize {
    (len / PIECES).next_multiple_of(PAGE_BYTES as usize).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
}

impl<'a> StagedUpload<'a> {
    /// Copies input number `input` to byte `start` of `memory`.
    pub fn new(
        input: usize,
        payload: &'a OutgoingBytes<'_>,
        memory: &'a StagedMemory,
        start: u64,
        copies: &'a CopyPool,
        progress: Option<Progress>,
    ) -> Self {
        let (done, begun, elapsed) = Default::default();
        let start = start as usize;
        Self { input, payload, memory, start, done, copies, progress, begun, elapsed }
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
        self.begun.is_some() && self.done == self.len()
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
    pub fn copy_batch(&mut self, written: impl Fn(v1::WrittenRange) + Sync) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
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
        self.elapsed = begun.elapsed();
        if let Some(progress) = self.progress.as_ref().filter(|_| end > from) {
            progress(end as u64, len as u64);
        }
    }
}
