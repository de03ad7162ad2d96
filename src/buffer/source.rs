//! Bytes that are read or written in any order, by several threads at a time.

use std::ops::Range;

use super::{Arrival, Held, Room};
use crate::error::Result;

/// Where bytes come from.
pub trait Source: Sync {
    /// Copies `out.len()` bytes from number `at` on. They must be there.
    fn read(&self, at: u64, out: &mut [u8]);

    /// The bytes from number `at` on where they lie, as many of `bytes` as devices can copy from
    /// there. They must be there.
    fn hold(&self, _at: u64, _bytes: u64) -> Option<Held<'_>> {
        None
    }
}

/// Where bytes go.
pub trait Sink: Sync {
    /// Puts `bytes` where number `at` is. Each byte comes once.
    ///
    /// Errors: what keeps it from taking more.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Room for the bytes from number `at` on, as many of `bytes` as devices can copy to there.
    ///
    /// Errors: as [`Sink::write`].
    fn room(&self, _at: u64, _bytes: u64) -> Result<Option<Room<'_>>> {
        Ok(None)
    }
}

/// A part of a payload: of one that lands, to be read; of one that is made, to be written.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    arrival: &'a Arrival,
    start: u64,
}

impl<'a> Part<'a> {
    /// What begins with byte number `start`.
    pub fn at(arrival: &'a Arrival, start: u64) -> Self {
        Self { arrival, start }
    }

    /// Bytes `range`; `None` where some have not landed.
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
