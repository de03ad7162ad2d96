//! Byte sources and sinks with random access from several threads.

use std::ops::Range;

use super::{PinnedRead, PinnedWrite, UploadBuffer};
use crate::error::Result;

/// A source of bytes.
pub trait ByteSource: Sync {
    /// Copies `out.len()` bytes, starting with byte number `at`. They must have been received.
    fn read(&self, at: u64, out: &mut [u8]);

    /// Locks the longest prefix of the `bytes` bytes from number `at` on that devices can copy from
    /// directly; `None` if that is empty. The bytes must have been received.
    fn hold(&self, _at: u64, _bytes: u64) -> Option<PinnedRead<'_>> {
        None
    }
}

/// A destination for bytes.
pub trait ByteSink: Sync {
    /// Writes `bytes`, starting at byte number `at`. Each byte is written once.
    ///
    /// Errors: the destination's failure.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Claims the longest prefix of the `bytes` bytes from number `at` on that devices can copy to
    /// directly; `None` if that is empty.
    ///
    /// Errors: those of [`ByteSink::write`].
    fn room(&self, _at: u64, _bytes: u64) -> Result<Option<PinnedWrite<'_>>> {
        Ok(None)
    }
}

/// A payload from some byte on: an upload to read, or a result to write.
#[derive(Debug, Clone, Copy)]
pub struct PayloadView<'a> {
    arrival: &'a UploadBuffer,
    start: u64,
}

impl<'a> PayloadView<'a> {
    /// The payload from byte number `start` on.
    pub fn starting_at(arrival: &'a UploadBuffer, start: u64) -> Self {
        Self { arrival, start }
    }

    /// The payload from `range.start` on; `None` if part of `range` has not been received.
    pub fn received(arrival: &'a UploadBuffer, range: Range<u64>) -> Option<Self> {
        let start = range.start;
        arrival.has_received(range).then_some(Self { arrival, start })
    }
}

impl ByteSource for PayloadView<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        self.arrival.read(self.start + at, out);
    }

    fn hold(&self, at: u64, bytes: u64) -> Option<PinnedRead<'_>> {
        self.arrival.lock_pinned(self.start + at..self.start + at + bytes)
    }
}

impl ByteSink for PayloadView<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.arrival.write(self.start + at, bytes).map(|_| ())
    }

    fn room(&self, at: u64, bytes: u64) -> Result<Option<PinnedWrite<'_>>> {
        self.arrival.claim_pinned(self.start + at..self.start + at + bytes)
    }
}

impl ByteSource for &[u8] {
    fn read(&self, at: u64, out: &mut [u8]) {
        out.copy_from_slice(&self[at as usize..][..out.len()]);
    }
}
