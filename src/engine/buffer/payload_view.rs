//! A payload as a source or a sink.

use std::ops::Range;

use super::{ByteSink, ByteSource, DestinationSlices, SharedPiece, SourceSlices, UploadBuffer};
use crate::error::Result;

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

    fn is_intact(&self) -> bool {
        self.upload.is_intact()
    }

    fn has_received(&self, range: Range<u64>) -> bool {
        self.upload.has_received(self.in_payload(range))
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        self.upload.device_source(self.in_payload(range)).map(SourceSlices)
    }

    fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
        Some(self.upload.shared_pieces(self.in_payload(range)))
    }
}

impl ByteSink for PayloadView<'_> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.upload.write(self.start + start, bytes).map(|_| ())
    }

    fn device_destination(&self, range: Range<u64>) -> Result<Option<DestinationSlices<'_>>> {
        let start = range.start;
        let slices = self.upload.claim_device_destination(self.in_payload(range))?;
        Ok(slices.map(|slices| DestinationSlices { slices, sink: self, start }))
    }

    fn place(&self, range: Range<u64>) -> Result<Option<Vec<SharedPiece>>> {
        self.upload.place(self.in_payload(range)).map(Some)
    }

    fn is_in_region(&self) -> bool {
        self.upload.is_in_region()
    }

    fn mark_written(&self, range: Range<u64>) {
        self.upload.mark_written(self.in_payload(range));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{
        super::{PayloadPool, Shifted},
        *,
    };

    const BLOCK: u64 = 16 << 20;
    /// Two blocks and a tail.
    const LEN: u64 = 2 * BLOCK + 1000;

    fn pool(pinned_bytes: u64) -> PayloadPool {
        let pool = PayloadPool::new(0, pinned_bytes).unwrap();
        pool.memory().set_pinned_bytes(pinned_bytes as usize);
        pool
    }

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i * 37 % 251 + 1) as u8).collect()
    }

    /// Writes like a device or another process.
    fn write_directly(pool: &PayloadPool, pieces: &[SharedPiece], bytes: &[u8]) {
        let mut rest = bytes;
        for piece in pieces {
            assert_eq!(piece.memory, pool.memory().id());
            let (now, later) = rest.split_at(piece.len as usize);
            pool.memory().write(piece.start as usize, now);
            rest = later;
        }
    }

    fn read_directly(pool: &PayloadPool, pieces: &[SharedPiece]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in pieces {
            pool.memory().append_to(&mut bytes, piece.start as usize, piece.len as usize);
        }
        bytes
    }

    /// Waits until the payloads that were dropped before are wiped.
    fn wait_for_wiper(pool: &PayloadPool) {
        let (sender, receiver) = channel::<()>();
        pool.wiper().drop_later(sender);
        assert!(receiver.recv().is_err());
    }

    #[test]
    fn devices_access_the_prefix_that_is_pinned() {
        let pinned = 2 * BLOCK - 8192;
        let pool = pool(pinned);
        let bytes = bytes(LEN);
        let upload = UploadBuffer::new(&pool, LEN, vec![]);
        let view = PayloadView::starting_at(&upload, 0);
        for (start, end) in [(0, 5_000_000), (5_000_000, 17_000_001), (17_000_001, LEN)] {
            let write = view.device_destination(start..end).unwrap().expect("pinned");
            let until = start + write.bytes();
            assert_eq!(until, end.min(pinned));
            let place = view.place(start..until).unwrap().unwrap();
            write_directly(&pool, &place, &bytes[start as usize..until as usize]);
            assert!(!upload.has_received(start..start + 1), "not received before `commit`");
            let again = view.device_destination(start..until).unwrap();
            assert!(again.is_none(), "each byte is written once");
            write.commit();
            assert!(upload.has_received(start..until));
        }
        assert!(view.device_destination(pinned..LEN).unwrap().is_none(), "not pinned");
        upload.write(pinned, &bytes[pinned as usize..]).unwrap();
        assert!(upload.is_complete());
        for (start, end) in [(3, LEN), (3, 5), (300_000, 900_000), (BLOCK - 1, BLOCK + 1)] {
            let slices = view.device_source(start..end).expect("pinned");
            assert_eq!(slices.bytes(), end.min(pinned) - start);
        }
        assert_eq!(upload.copy(0, LEN as usize), bytes);
        assert!(view.device_source(LEN - 1..LEN).is_none());
    }

    #[test]
    fn the_pinned_prefix_is_used_first_and_given_back() {
        let pool = pool(BLOCK);
        for _ in 0..2 {
            let pinned = UploadBuffer::from_bytes(&pool, &bytes(BLOCK), vec![]).unwrap();
            let other = UploadBuffer::from_bytes(&pool, &bytes(10), vec![]).unwrap();
            assert!(PayloadView::starting_at(&pinned, 0).device_source(0..BLOCK).is_some());
            assert!(PayloadView::starting_at(&other, 0).device_source(0..10).is_none());
            drop((pinned, other));
            wait_for_wiper(&pool);
        }
    }

    #[test]
    fn another_process_writes_where_the_payload_is_placed() {
        let pool = pool(0);
        let bytes = bytes(LEN);
        let upload = UploadBuffer::new(&pool, LEN, vec![]);
        let payload = PayloadView::starting_at(&upload, 7);
        let view = Shifted { all: &payload, start: 93 };
        upload.write(0, &bytes[..100]).unwrap();
        let place = view.place(0..LEN - 100).unwrap().unwrap();
        assert_eq!(place.iter().map(|piece| piece.len).sum::<u64>(), LEN - 100);
        assert_eq!(view.place(0..LEN - 100).unwrap(), Some(place.clone()), "the same place");
        assert_eq!(upload.received(), 100, "`place` claims nothing");
        write_directly(&pool, &place, &bytes[100..]);
        for _ in 0..2 {
            view.mark_written(0..LEN - 100);
            assert!(upload.is_complete());
        }
        assert_eq!(upload.write(100, &[0; 50]), Ok(0), "already written");
        assert_eq!(upload.copy(0, LEN as usize), bytes);
    }

    #[test]
    fn the_pieces_of_a_payload_are_merged_if_they_are_adjacent() {
        let pool = pool(0);
        let bytes = bytes(LEN);
        let gap = UploadBuffer::from_bytes(&pool, &bytes[..BLOCK as usize], vec![]).unwrap();
        let next = UploadBuffer::from_bytes(&pool, &[1], vec![]).unwrap();
        drop(gap);
        wait_for_wiper(&pool);
        // The first block fills the gap before `next`.
        let upload = UploadBuffer::from_bytes(&pool, &bytes, vec![]).unwrap();
        let view = PayloadView::starting_at(&upload, 0);
        let pieces = view.shared_pieces(5..LEN).unwrap();
        let lengths: Vec<_> = pieces.iter().map(|piece| piece.len).collect();
        assert_eq!(lengths, [BLOCK - 5, BLOCK + 1000]);
        assert_eq!(read_directly(&pool, &pieces), bytes[5..]);
        let pieces = view.shared_pieces(BLOCK + 1..BLOCK + 2).unwrap();
        assert_eq!(read_directly(&pool, &pieces), bytes[BLOCK as usize + 1..][..1]);
        drop(next);
    }

    #[test]
    fn placed_bytes_are_wiped_even_if_they_were_never_marked() {
        let pool = pool(0);
        let bytes = bytes(LEN);
        let upload = UploadBuffer::new(&pool, LEN, vec![]);
        let place = upload.place(BLOCK..LEN).unwrap();
        write_directly(&pool, &place, &bytes[BLOCK as usize..]);
        drop(upload);
        wait_for_wiper(&pool);
        assert!(read_directly(&pool, &place).iter().all(|byte| *byte == 0), "not wiped");
    }

    #[test]
    fn a_failed_payload_cannot_be_claimed() {
        let upload = UploadBuffer::new(&pool(0), LEN, vec![]);
        upload.fail(crate::error::Error::Cancelled);
        let view = PayloadView::starting_at(&upload, 0);
        assert!(view.device_destination(0..LEN).is_err());
        assert!(view.place(0..LEN).is_err());
    }
}
