//! Parts of an MSM: each takes a range of the points, and the scalars of that range of every row.

use std::ops::Range;

use crate::buffer::{ByteSource, SharedPiece, SourceSlices};

/// The scalars of a call: rows that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsmRows {
    pub rows: u64,
    /// Scalars of a row.
    pub length: u64,
}

/// A range of the points of an MSM, with its scalars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmPart {
    whole: MsmRows,
    pub points: Range<u64>,
}

impl MsmRows {
    /// Parts of almost equal size: their number of points differs by at most one.
    pub fn parts(self, count: u64) -> Vec<MsmPart> {
        let start =
            |part: u64| (u128::from(self.length) * u128::from(part) / u128::from(count)) as u64;
        let part = |part| MsmPart { whole: self, points: start(part)..start(part + 1) };
        (0..count).map(part).collect()
    }
}

impl MsmPart {
    /// The part's scalars, as the input of its own call.
    pub fn rows(&self) -> MsmRows {
        MsmRows { rows: self.whole.rows, length: self.points.end - self.points.start }
    }

    /// The number of scalars.
    pub fn count(&self) -> u64 {
        self.rows().rows * self.rows().length
    }

    /// The number, within the input of the whole call, of element `index` of the part's input.
    pub fn index_in_whole(&self, index: u64) -> u64 {
        let MsmRows { length, .. } = self.rows();
        self.whole.length * (index / length) + self.points.start + index % length
    }

    /// The elements of the whole call from the first to the last of these elements of the part.
    pub fn span_in_whole(&self, elements: &Range<u64>) -> Range<u64> {
        match elements.end.checked_sub(1) {
            Some(last) if last >= elements.start => {
                self.index_in_whole(elements.start)..self.index_in_whole(last) + 1
            }
            _ => 0..0,
        }
    }
}

/// The scalars of a part, in the input of the whole call.
pub struct PartSource<'a> {
    pub part: &'a MsmPart,
    pub whole: &'a dyn ByteSource,
    /// Bytes of a scalar.
    pub width: u64,
}

impl PartSource<'_> {
    /// The first of these bytes, in the whole input: those that lie in the row of the first byte.
    fn first_in_whole(&self, range: &Range<u64>) -> Range<u64> {
        let row_bytes = self.part.rows().length * self.width;
        let row = range.start / row_bytes;
        let offset = range.start % row_bytes;
        let start = (row * self.part.whole.length + self.part.points.start) * self.width + offset;
        start..start + (row_bytes - offset).min(range.end - range.start)
    }

    /// These bytes in the whole input, row by row.
    fn in_whole(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let found = (at < range.end).then(|| self.first_in_whole(&(at..range.end)))?;
            at += found.end - found.start;
            Some(found)
        })
    }
}

impl ByteSource for PartSource<'_> {
    fn read(&self, start: u64, mut out: &mut [u8]) {
        for bytes in self.in_whole(start..start + out.len() as u64) {
            let (row, rest) = out.split_at_mut((bytes.end - bytes.start) as usize);
            self.whole.read(bytes.start, row);
            out = rest;
        }
    }

    fn is_intact(&self) -> bool {
        self.whole.is_intact()
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        self.whole.device_source(self.in_whole(range).next()?)
    }

    fn has_received(&self, range: Range<u64>) -> bool {
        self.in_whole(range).all(|bytes| self.whole.has_received(bytes))
    }

    fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
        let mut pieces = Vec::new();
        for bytes in self.in_whole(range) {
            for piece in self.whole.shared_pieces(bytes)? {
                piece.add_to(&mut pieces);
            }
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in shared memory, of which the first `received` have arrived.
    struct Received<'a> {
        bytes: &'a [u8],
        received: u64,
        is_intact: bool,
    }

    impl ByteSource for Received<'_> {
        fn read(&self, start: u64, out: &mut [u8]) {
            self.bytes.read(start, out);
        }

        fn is_intact(&self) -> bool {
            self.is_intact
        }

        fn has_received(&self, range: Range<u64>) -> bool {
            range.end <= self.received
        }

        fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
            Some(vec![SharedPiece { memory: 7, start: range.start, len: range.end - range.start }])
        }
    }

    #[test]
    fn parts_cover_all_points_and_differ_by_one() {
        for (length, count) in [(10, 3), (11, 2), (8, 8), (70, 4), (u64::MAX, 3)] {
            let parts = MsmRows { rows: 2, length }.parts(count);
            assert_eq!(parts.len() as u64, count);
            let mut end = 0;
            for part in &parts {
                assert_eq!(part.points.start, end);
                end = part.points.end;
                assert!((length / count..=length.div_ceil(count)).contains(&part.rows().length));
            }
            assert_eq!(end, length);
        }
    }

    #[test]
    fn a_part_reads_its_range_of_every_row() {
        const WIDTH: u64 = 2;
        let whole = MsmRows { rows: 3, length: 7 };
        let scalars: Vec<u8> = (0..21).flat_map(|scalar| [scalar, 100 + scalar]).collect();
        let source = Received { bytes: &scalars, received: 9 * WIDTH, is_intact: true };
        for part in whole.parts(2) {
            let of_part = PartSource { part: &part, whole: &source, width: WIDTH };
            let mut read = vec![0; (part.count() * WIDTH) as usize];
            of_part.read(0, &mut read);
            for (index, scalar) in read.chunks(2).enumerate() {
                let expected = part.index_in_whole(index as u64) as u8;
                assert_eq!(scalar, [expected, 100 + expected]);
                // Single bytes are found, too.
                let mut byte = [0];
                of_part.read(index as u64 * WIDTH + 1, &mut byte);
                assert_eq!(byte, [100 + expected]);
            }
            let all = 0..part.count() * WIDTH;
            assert!(!of_part.has_received(all.clone()));
            assert!(of_part.has_received(0..part.rows().length * WIDTH));
            let pieces = of_part.shared_pieces(all).unwrap();
            let starts: Vec<_> = pieces.iter().map(|piece| piece.start / WIDTH).collect();
            let first = part.points.start;
            assert_eq!(starts, [first, 7 + first, 14 + first]);
            assert_eq!(part.span_in_whole(&(0..part.rows().length + 1)), first..8 + first);
            assert_eq!(part.span_in_whole(&(0..0)), 0..0);
        }
        // Rows of a part that is all of the call are adjacent.
        let part = &whole.parts(1)[0];
        let of_part = PartSource { part, whole: &source, width: WIDTH };
        assert_eq!(of_part.shared_pieces(0..42).unwrap().len(), 1);
        let without_pages = Received { is_intact: false, ..source };
        assert!(of_part.is_intact());
        assert!(!PartSource { whole: &without_pages, ..of_part }.is_intact());
    }
}
