//! Byte sources and sinks with random access from several threads, and direct access to their
//! memory by devices and other processes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{error::Result, region::DeviceBytes};

pub trait ByteSource: Sync {
    /// Copies `out.len()` bytes, starting with byte number `start`. They must have been received.
    fn read(&self, start: u64, out: &mut [u8]);

    /// The longest prefix of `range` that devices can copy from directly; `None` if that is empty.
    /// The bytes must have been received.
    fn device_source(&self, _range: Range<u64>) -> Option<SourceSlices<'_>> {
        None
    }

    /// False if a client has given back memory that the bytes lie in: some may have been lost.
    fn is_intact(&self) -> bool;

    /// Whether the bytes of `range` have been received.
    fn has_received(&self, _range: Range<u64>) -> bool {
        true
    }

    /// Where the bytes of `range` lie in shared memory, in order; adjacent pieces are merged.
    /// `None` if they do not lie there. The bytes must have been received.
    fn shared_pieces(&self, _range: Range<u64>) -> Option<Vec<SharedPiece>> {
        None
    }
}

/// A sink can read what has been written.
pub trait ByteSink: ByteSource {
    /// Writes `bytes`, starting at byte number `start`. Each byte is written once.
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()>;

    /// Claims the longest prefix of `range` that devices can copy to directly; `None` if that is
    /// empty, or if part of it already has a writer.
    fn device_destination(&self, _range: Range<u64>) -> Result<Option<DestinationSlices<'_>>> {
        Ok(None)
    }

    /// Where to write the bytes of `range` in shared memory, in order; adjacent pieces are merged.
    /// Allocates the memory if there is none and claims nothing, so that another call returns the
    /// same. `None` if the bytes do not lie in shared memory.
    fn place(&self, _range: Range<u64>) -> Result<Option<Vec<SharedPiece>>> {
        Ok(None)
    }

    /// Whether a client can write to the memory as well, at any time.
    fn is_in_region(&self) -> bool {
        false
    }

    /// The bytes of `range`, which have memory, were written there directly, by another process for
    /// example. They count as received from now on.
    fn mark_written(&self, _range: Range<u64>) {}
}

/// Payload bytes in memory that devices copy from, in the payload's order.
pub struct SourceSlices<'a>(pub Vec<DeviceBytes<'a>>);

/// Claimed memory that devices copy payload bytes to; they count as received after
/// [`DestinationSlices::commit`].
pub struct DestinationSlices<'a> {
    /// In the payload's order.
    pub slices: Vec<DeviceBytes<'a>>,
    pub sink: &'a dyn ByteSink,
    /// The first byte's number in the sink.
    pub start: u64,
}

/// A range of shared memory that holds payload bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPiece {
    /// [`crate::region::SharedMemory::id`].
    pub memory: u64,
    pub start: u64,
    pub len: u64,
}

impl SourceSlices<'_> {
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|bytes| bytes.size() as u64).sum()
    }
}

impl DestinationSlices<'_> {
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(|bytes| bytes.size() as u64).sum()
    }

    /// All bytes have been written.
    pub fn commit(self) {
        self.sink.mark_written(self.start..self.start + self.bytes());
    }
}

impl SharedPiece {
    /// Whether the pieces have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.memory == other.memory
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    /// Appends the piece, merged with the last one of `pieces` if it is adjacent.
    pub fn add_to(self, pieces: &mut Vec<Self>) {
        match pieces.last_mut() {
            Some(last) if last.memory == self.memory && last.start + last.len == self.start => {
                last.len += self.len;
            }
            _ => pieces.push(self),
        }
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
    fn is_intact(&self) -> bool {
        self.all.is_intact()
    }

    fn has_received(&self, range: Range<u64>) -> bool {
        self.all.has_received(self.range(range))
    }

    fn read(&self, start: u64, out: &mut [u8]) {
        self.all.read(self.start + start, out);
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        self.all.device_source(self.range(range))
    }

    fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
        self.all.shared_pieces(self.range(range))
    }
}

impl<T: ByteSink + ?Sized> ByteSink for Shifted<&T> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.all.write(self.start + start, bytes)
    }

    fn device_destination(&self, range: Range<u64>) -> Result<Option<DestinationSlices<'_>>> {
        self.all.device_destination(self.range(range))
    }

    fn place(&self, range: Range<u64>) -> Result<Option<Vec<SharedPiece>>> {
        self.all.place(self.range(range))
    }

    fn mark_written(&self, range: Range<u64>) {
        self.all.mark_written(self.range(range));
    }
}

impl ByteSource for &[u8] {
    fn read(&self, start: u64, out: &mut [u8]) {
        out.copy_from_slice(&self[start as usize..][..out.len()]);
    }

    fn is_intact(&self) -> bool {
        true
    }
}
