//! Memory of the server that a worker has mapped, as sources and sinks of runs.

use std::{any::Any, mem, ops::Range, sync::Arc};

use parking_lot::Mutex;

use crate::{
    buffer::{ByteSink, ByteSource, DestinationSlices, SharedPiece, SourceSlices},
    error::{EngineError as Error, EngineResult as Result},
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

/// An output, and which of its bytes were written since the last report to the server.
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
        let mut at = range.start;
        let mut parts = Vec::new();
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

    fn is_intact(&self) -> bool {
        self.pieces.iter().all(|piece| piece.memory.memory.is_intact())
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        let parts = self.pinned_prefix(&range).into_iter().map(|(memory, part)| {
            memory.for_device(part.start as usize, (part.end - part.start) as usize)
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

    fn is_intact(&self) -> bool {
        self.bytes.is_intact()
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
            memory.for_device(part.start as usize, (part.end - part.start) as usize)
        });
        let slices: Vec<_> = parts.collect();
        let (sink, start): (&dyn ByteSink, _) = (self, range.start);
        Ok((!slices.is_empty()).then_some(DestinationSlices { slices, sink, start }))
    }

    fn mark_written(&self, range: Range<u64>) {
        self.written.lock().push(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Two memories, the first of which the device accesses up to its middle, and bytes that lie in
    /// both.
    fn placed() -> (Vec<Arc<MappedMemory>>, MappedBytes) {
        let memories: Vec<_> = (0..2)
            .map(|_| {
                let memory = Arc::new(SharedMemory::create(2 * PAGE).unwrap());
                Arc::new(MappedMemory { _pinning: None, memory })
            })
            .collect();
        memories[0].memory.set_pinned_bytes(PAGE);
        let piece = |memory: usize, start, len| SharedPiece {
            memory: memories[memory].memory.id(),
            start,
            len,
        };
        let pieces = [piece(0, 100, 50), piece(1, 7, 1000), piece(0, PAGE as u64 - 8, 16)];
        let find = |id| memories.iter().find(|memory| memory.memory.id() == id).cloned();
        let mut bytes = MappedBytes::default();
        bytes.add(0, &pieces, find).unwrap();
        assert!(bytes.add(5, &pieces, find).is_err(), "bytes that do not follow");
        let outside = [SharedPiece { start: 2 * PAGE as u64, ..pieces[0] }];
        assert!(bytes.add(1066, &outside, find).is_err(), "bytes outside of the memory");
        assert!(bytes.add(1066, &[SharedPiece { memory: 0, ..pieces[0] }], find).is_err());
        (memories, bytes)
    }

    #[test]
    fn bytes_in_several_memories_are_read_and_written_in_order() {
        let (memories, bytes) = placed();
        assert_eq!(bytes.len(), 1066);
        let output = MappedOutput::new(bytes);
        let values: Vec<_> = (0..1066_u32).map(|i| (i % 251) as u8).collect();
        output.write(500, &values[500..]).unwrap();
        output.write(0, &values[..30]).unwrap();
        output.write(30, &values[30..500]).unwrap();
        assert!(output.write(1060, &[0; 7]).is_err(), "written beyond the end");
        let mut read = vec![0; 1066];
        output.read(0, &mut read);
        assert_eq!(read, values);
        let mut at = [0; 3];
        memories[1].memory.read(7, &mut at);
        assert_eq!(at, values[50..53]);
        let all = std::slice::from_ref(&(0..1066));
        assert_eq!(output.take_written(), all, "adjacent ranges are merged");
        assert!(output.take_written().is_empty(), "told once");
    }

    #[test]
    fn devices_access_the_prefix_that_lies_in_pinned_memory() {
        let (_memories, bytes) = placed();
        let lengths = |range: Range<u64>| {
            let slices = bytes.device_source(range);
            slices.map(|slices| slices.0.iter().map(|bytes| bytes.size()).collect::<Vec<_>>())
        };
        assert_eq!(lengths(10..1066), Some(vec![40]));
        assert_eq!(lengths(60..70), None, "the second memory is not pinned");
        assert_eq!(lengths(1050..1058), Some(vec![8]));
        assert_eq!(lengths(1050..1059), None, "a piece that ends outside of the pinned bytes");
        let output = MappedOutput::new(bytes);
        let write = output.device_destination(0..20).unwrap().expect("pinned");
        assert_eq!(write.bytes(), 20);
        write.commit();
        assert_eq!(output.take_written(), std::slice::from_ref(&(0..20)));
    }
}
