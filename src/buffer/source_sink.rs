//! Byte sources and sinks with random access from several threads.

use std::ops::Range;

use super::{PinnedRead, PinnedWrite, UploadBuffer};
use crate::error::Result;

pub trait ByteSource: Sync {
    /// Copies `out.len()` bytes, starting with byte number `start`. They must have been received.
    fn read(&self, start: u64, out: &mut [u8]);

    /// Locks the longest prefix of `range` that devices can copy from directly; `None` if that is
    /// empty. The bytes must have been received.
    fn lock_pinned(&self, _range: Range<u64>) -> Option<PinnedRead<'_>> {
        None
    }
}

/// A sink can read what has been written.
pub trait ByteSink: ByteSource {
    /// Writes `bytes`, starting at byte number `start`. Each byte is written once.
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()>;

    /// Claims the longest prefix of `range` that devices can copy to directly; `None` if that is
    /// empty.
    fn claim_pinned(&self, _range: Range<u64>) -> Result<Option<PinnedWrite<'_>>> {
        Ok(None)
    }
}

/// A payload from some byte on: an upload to read, or a result to write.
#[derive(Debug, Clone, Copy)]
pub struct PayloadView<'a> {
    upload: &'a UploadBuffer,
    start: u64,
}

impl<'a> PayloadView<'a> {
    pub fn starting_at(upload: &'a UploadBuffer, start: u64) -> Self {
        Self { upload, start }
    }

    /// The payload from `range.start` on; `None` if part of `range` has not been received.
    pub fn received(upload: &'a UploadBuffer, range: Range<u64>) -> Option<Self> {
        let start = range.start;
        upload.has_received(range).then_some(Self { upload, start })
    }

    /// A range of the view as a range of the payload.
    fn in_payload(&self, range: Range<u64>) -> Range<u64> {
        self.start + range.start..self.start + range.end
    }
}

impl ByteSource for PayloadView<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.upload.read(self.start + start, out);
    }

    fn lock_pinned(&self, range: Range<u64>) -> Option<PinnedRead<'_>> {
        self.upload.lock_pinned(self.in_payload(range))
    }
}

impl ByteSink for PayloadView<'_> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.upload.write(self.start + start, bytes).map(|_| ())
    }

    fn claim_pinned(&self, range: Range<u64>) -> Result<Option<PinnedWrite<'_>>> {
        self.upload.claim_pinned(self.in_payload(range))
    }
}

/// A source or a sink from byte `start` on.
#[derive(Clone, Copy)]
pub struct Shifted<T> {
    pub all: T,
    pub start: u64,
}

impl<T> Shifted<T> {
    fn range(&self, range: Range<u64>) -> Range<u64> {
        self.start + range.start..self.start + range.end
    }
}

impl<T: ByteSource + ?Sized> ByteSource for Shifted<&T> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.all.read(self.start + start, out);
    }

    fn lock_pinned(&self, range: Range<u64>) -> Option<PinnedRead<'_>> {
        self.all.lock_pinned(self.range(range))
    }
}

impl<T: ByteSink + ?Sized> ByteSink for Shifted<&T> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.all.write(self.start + start, bytes)
    }

    fn claim_pinned(&self, range: Range<u64>) -> Result<Option<PinnedWrite<'_>>> {
        self.all.claim_pinned(self.range(range))
    }
}

impl ByteSource for &[u8] {
    fn read(&self, start: u64, out: &mut [u8]) {
        out.copy_from_slice(&self[start as usize..][..out.len()]);
    }
}
