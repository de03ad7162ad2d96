//! Memory of the server that a worker has mapped, as sources and sinks of runs.

use std::{any::Any, mem, ops::Range, sync::Arc};

use parking_lot::Mutex;

use crate::{
    buffer::{ByteSink, ByteSource, DestinationSlices, SharedPiece, SourceSlices},
    error::{Error, Result},
    region::SharedMemory,
};

/// Memory that the server and this process map.
pub struct MappedMemory {
    /// Lets the device access the memory. Dropped first.
    pub _pinning: Option<Box<dyn Any + Send + Sync>>,
    pub memory: Arc<SharedMemory>,
}

/// A part of mapped memory, as a part of an input or an output.
struct PlacedPiece {
    /// The first byte, numbered within the input or output.
    start: u64,
    memory: Arc<MappedMemory>,
    bytes: Range<u64>,
}

/// Bytes of an input or an output, in mapped memory.
#[derive(Default)]
pub struct MappedBytes {
    /// In order, without gaps.
    pieces: Vec<PlacedPiece>,
}

/// An output, and which of its bytes were written since the server was told.
pub struct MappedOutput {
    bytes: MappedBytes,
    written: Mutex<Vec<Range<u64>>>,
}

impl PlacedPiece {
    fn end(&self) -> u64 {
        self.start + (self.bytes.end - self.bytes.start)
    }

    /// The part of `range`, which begins in the piece, that lies in the piece, as bytes of the
    /// memory.
    fn part(&self, range: &Range<u64>) -> Range<u64> {
        let start = self.bytes.start + (range.start - self.start);
        start..start + (range.end.min(self.end()) - range.start)
    }
}

impl MappedBytes {
    /// Adds bytes that follow those that are known. `find` finds memory by its number.
    ///
    /// Errors: `Internal` if they do not follow, or if the memory is not mapped or too short.
    pub fn add(
        &mut self,
        start: u64,
        pieces: &[SharedPiece],
        find: impl Fn(u64) -> Option<Arc<MappedMemory>>,
    ) -> Result<()> {
        if start != self.len() {
            return Err(Error::Internal("bytes of an input do not follow each other".into()));
        }
        for &SharedPiece { memory, start, len } in pieces {
            let bytes = start..start.saturating_add(len);
            let memory = find(memory).filter(|memory| bytes.end <= memory.memory.size() as u64);
            let memory = memory.ok_or_else(|| Error::Internal("memory is not mapped".into()))?;
            self.pieces.push(PlacedPiece { start: self.len(), memory, bytes });
        }
        Ok(())
    }

    /// The number of bytes that are known.
    pub fn len(&self) -> u64 {
        self.pieces.last().map_or(0, PlacedPiece::end)
    }

    fn piece_at(&self, at: u64) -> &PlacedPiece {
        &self.pieces[self.pieces.partition_point(|piece| piece.end() <= at)]
    }

    /// Calls `visit(memory, bytes of the memory, offset in the range)` for each part of a range.
    fn visit(&self, range: Range<u64>, mut visit: impl FnMut(&SharedMemory, Range<u64>, usize)) {
        let mut at = range.start;
        while at < range.end {
            let piece = self.piece_at(at);
            let part = piece.part(&(at..range.end));
            let bytes = part.end - part.start;
            visit(&piece.memory.memory, part, (at - range.start) as usize);
            at += bytes;
        }
    }

    /// The longest prefix of `range` that the device accesses directly.
    fn pinned_prefix(&self, range: &Range<u64>) -> Vec<(&SharedMemory, Range<u64>)> {
        let (mut at, mut parts) = (range.start, Vec::new());
        while at < range.end {
            let piece = self.piece_at(at);
            let part = piece.part(&(at..range.end));
            if part.end > piece.memory.memory.pinned_bytes() as u64 {
                break;
            }
            at += part.end - part.start;
            parts.push((&*piece.memory.memory, part));
        }
        parts
    }
}

impl ByteSource for MappedBytes {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.visit(start..start + out.len() as u64, |memory, part, offset| {
            let len = (part.end - part.start) as usize;
            memory.read(part.start as usize, &mut out[offset..offset + len]);
        });
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        let parts = self.pinned_prefix(&range).into_iter().map(|(memory, part)| {
            memory.device_source(part.start as usize, (part.end - part.start) as usize)
        });
        let slices: Vec<_> = parts.collect();
        (!slices.is_empty()).then_some(SourceSlices(slices))
    }
}

impl MappedOutput {
    pub fn new(bytes: MappedBytes) -> Self {
        Self { bytes, written: Mutex::default() }
    }

    /// The ranges that were written since the last call, adjacent ones merged.
    pub fn take_written(&self) -> Vec<Range<u64>> {
        let mut ranges = mem::take(&mut *self.written.lock());
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let is_adjacent = next.start <= range.end;
            if is_adjacent {
                range.end = range.end.max(next.end);
            }
            is_adjacent
        });
        ranges
    }
}

impl ByteSource for MappedOutput {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.bytes.read(start, out);
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        self.bytes.device_source(range)
    }
}

impl ByteSink for MappedOutput {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let range = start..start + bytes.len() as u64;
        if range.end > self.bytes.len() {
            return Err(Error::Internal("an output is shorter than its value".into()));
        }
        self.bytes.visit(range.clone(), |memory, part, offset| {
            let len = (part.end - part.start) as usize;
            memory.write(part.start as usize, &bytes[offset..offset + len]);
        });
        self.mark_written(range);
        Ok(())
    }

    fn device_destination(&self, range: Range<u64>) -> Result<Option<DestinationSlices<'_>>> {
        let parts = self.bytes.pinned_prefix(&range).into_iter().map(|(memory, part)| {
            memory.device_destination(part.start as usize, (part.end - part.start) as usize)
        });
        let slices: Vec<_> = parts.collect();
        let (sink, start): (&dyn ByteSink, _) = (self, range.start);
        Ok((!slices.is_empty()).then_some(DestinationSlices { slices, sink, start }))
    }

    fn mark_written(&self, range: Range<u64>) {
        self.written.lock().push(range);
    }
}
