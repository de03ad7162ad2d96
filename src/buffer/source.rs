//! Byte sources and sinks with random access from several threads.

use std::ops::Range;

use super::{Arrival, Held, Room};
use crate::error::Result;

/// A source of bytes.
pub trait Source: Sync {
    /// Copies `out.len()` bytes, starting with byte number `at`. They must have been received.
    fn read(&self, at: u64, out: &mut [u8]);

    /// Locks the longest prefix of the `bytes` bytes from number `at` on that devices can copy from
    /// directly; `None` if that is empty. The bytes must have been received.
    fn hold(&self, _at: u64, _bytes: u64) -> Option<Held<'_>> {
        None
    }
}

/// A destination for bytes.
pub trait Sink: Sync {
    /// Writes `bytes`, starting at byte number `at`. Each byte is written once.
    ///
    /// Errors: the destination's failure.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Claims the longest prefix of the `bytes` bytes from number `at` on that devices can copy to
    /// directly; `None` if that is empty.
    ///
    /// Errors: those of [`Sink::write`].
    fn room(&self, _at: u64, _bytes: u64) -> Result<Option<Room<'_>>> {
        Ok(None)
    }
}

/// A payload from some byte on: an upload to read, or a result to write.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    arrival: &'a Arrival,
    start: u64,
}

impl<'a> Part<'a> {
    /// The payload from byte number `start` on.
    pub fn at(arrival: &'a Arrival, start: u64) -> Self {
        Self { arrival, start }
    }

    /// The payload from `range.start` on; `None` if part of `range` has not been received.
    pub fn landed(arrival: &'a Arrival, range: Range<u64>) -> Option<Self> {
        let start = range.start;
        arrival.has(range).then_some(Self { arrival, start })
    }
}

impl Source for Part<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        self.arrival.read(self.start + at, out);
    }

    fn hold(&self, at: u64, bytes: u64) -> Option<Held<'_>> {
        self.arrival.hold(self.start + at..self.start + at + bytes)
    }
}

impl Sink for Part<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.arrival.write(self.start + at, bytes).map(|_| ())
    }

    fn room(&self, at: u64, bytes: u64) -> Result<Option<Room<'_>>> {
        self.arrival.room(self.start + at..self.start + at + bytes)
    }
}

impl Source for &[u8] {
    fn read(&self, at: u64, out: &mut [u8]) {
        out.copy_from_slice(&self[at as usize..][..out.len()]);
    }
}
