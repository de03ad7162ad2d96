//! Direct access to payload bytes in lent memory, which devices copy from and to without staging.

use std::{ops::Range, sync::MutexGuard};

use super::{
    UploadBuffer,
    group::{GROUP, PinnedSlot, SLOT},
    upload_buffer::lock,
};
use crate::error::Result;

/// Payload bytes, locked in place until this is dropped.
pub struct PinnedRead<'a>(LockedSlots<'a>);

/// Claimed memory for payload bytes to come; they count as received after [`PinnedWrite::commit`].
pub struct PinnedWrite<'a> {
    arrival: &'a UploadBuffer,
    start: u64,
    locked: LockedSlots<'a>,
}

/// Consecutive slots of lent memory, locked against other readers and writers.
struct LockedSlots<'a> {
    slots: Vec<MutexGuard<'a, PinnedSlot>>,
    /// Bytes of the first slot before the range.
    skip: usize,
    bytes: usize,
}

impl UploadBuffer {
    /// Locks the longest prefix of `range` that lies in lent memory; `None` if that is empty. All
    /// of `range` must have been received.
    pub fn lock_pinned(&self, range: Range<u64>) -> Option<PinnedRead<'_>> {
        debug_assert!(self.has_received(range.clone()), "holds what has landed");
        let locked = self.lock_slots(range, false);
        (locked.bytes > 0).then_some(PinnedRead(locked))
    }

    /// Claims and locks the longest prefix of `range` that can lie in lent memory. `None` if that
    /// is empty or if part of it already has a writer.
    ///
    /// Errors: the payload's failure.
    pub fn claim_pinned(&self, range: Range<u64>) -> Result<Option<PinnedWrite<'_>>> {
        let start = range.start;
        let locked = self.lock_slots(range, true);
        let claimed = self.claim(start..start + locked.bytes as u64)?;
        Ok(claimed.then_some(PinnedWrite { arrival: self, start, locked }))
    }

    /// If `make` is set, allocates memory that does not exist yet.
    fn lock_slots(&self, range: Range<u64>, make: bool) -> LockedSlots<'_> {
        let skip = range.start as usize % SLOT;
        let mut locked = LockedSlots { slots: Vec::new(), skip, bytes: 0 };
        let mut at = range.start;
        // Always in ascending order, to avoid deadlock.
        while at < range.end {
            let Some(slots) = self.memory().pinned_group(at, make) else { break };
            let offset = at as usize % SLOT;
            locked.slots.push(lock(slots.get(at as usize % GROUP / SLOT)));
            let bytes = (SLOT - offset).min((range.end - at) as usize);
            locked.bytes += bytes;
            at += bytes as u64;
        }
        locked
    }
}

impl LockedSlots<'_> {
    /// The locked range of each slot.
    fn ranges(&self) -> Vec<Range<usize>> {
        let (mut skip, mut left) = (self.skip, self.bytes);
        let range = |_| {
            let range = skip..(skip + left).min(SLOT);
            left -= range.len();
            skip = 0;
            range
        };
        self.slots.iter().map(range).collect()
    }
}

impl PinnedRead<'_> {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// The bytes, in order.
    pub fn pieces(&self) -> Vec<&[u8]> {
        let pieces = self.0.slots.iter().zip(self.0.ranges());
        pieces.map(|(slot, range)| &slot[range]).collect()
    }
}

impl PinnedWrite<'_> {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.locked.bytes as u64
    }

    /// The memory to write to, in order.
    pub fn pieces(&mut self) -> Vec<&mut [u8]> {
        let ranges = self.locked.ranges();
        let pieces = self.locked.slots.iter_mut().zip(ranges);
        pieces.map(|(slot, range)| &mut slot[range]).collect()
    }

    /// Marks the bytes as received.
    pub fn commit(self) {
        let Self { arrival, start, locked } = self;
        let end = start + locked.bytes as u64;
        drop(locked);
        arrival.mark_received(start..end);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::lend_pinned, *};

    /// Two groups, and a tail too small to use lent memory.
    const LEN: u64 = (32 << 20) + 1000;

    #[test]
    fn holds_bytes_in_lent_memory_only() {
        lend_pinned(vec![0; 64 << 20].leak());
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 37 % 251) as u8).collect();
        let arrival = UploadBuffer::new(LEN, vec![]);
        assert!(arrival.claim_pinned(LEN - 10..LEN).unwrap().is_none(), "the tail is on the heap");
        for (start, end) in [(0, 5_000_000), (5_000_000, 17_000_001), (17_000_001, LEN)] {
            let mut room = arrival.claim_pinned(start..end).unwrap().expect("lent");
            let until = start + room.bytes();
            assert_eq!(until, end.min(32 << 20));
            let mut from = &bytes[start as usize..];
            for piece in room.pieces() {
                let (now, later) = from.split_at(piece.len());
                piece.copy_from_slice(now);
                from = later;
            }
            assert!(!arrival.has_received(start..start + 1), "not received before `land`");
            room.commit();
            assert!(arrival.has_received(start..until));
            assert!(
                arrival.claim_pinned(start..until).unwrap().is_none(),
                "each byte is written once"
            );
        }
        arrival.write(32 << 20, &bytes[32 << 20..]).unwrap();
        assert!(arrival.is_complete());
        for (start, end) in [(3, LEN), (3, 5), (300_000, 900_000), (31 << 20, 32 << 20)] {
            let held = arrival.lock_pinned(start..end).expect("lent");
            let end = end.min(32 << 20);
            assert_eq!(held.bytes(), end - start);
            assert_eq!(held.pieces().concat(), bytes[start as usize..end as usize]);
        }
        let mut back = vec![0; LEN as usize];
        arrival.read(0, &mut back);
        assert_eq!(back, bytes);
        assert!(arrival.lock_pinned(LEN - 1..LEN).is_none());
    }

    /// The bytes after its end in the group are unused, and its own bytes are wiped.
    #[test]
    fn a_payload_smaller_than_a_group_uses_lent_memory() {
        // More than concurrent tests use.
        lend_pinned(vec![0; 64 << 20].leak());
        const LEN: u64 = (3 << 20) + 77;
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31 % 253 + 1) as u8).collect();
        let arrival = UploadBuffer::new(LEN, vec![]);
        let mut room = arrival.claim_pinned(1 << 20..LEN).unwrap().expect("lent");
        assert_eq!(room.bytes(), LEN - (1 << 20));
        let mut from = &bytes[1 << 20..];
        for piece in room.pieces() {
            let (now, later) = from.split_at(piece.len());
            piece.copy_from_slice(now);
            from = later;
        }
        room.commit();
        arrival.write(0, &bytes[..1 << 20]).unwrap();
        let held = arrival.lock_pinned(5..LEN).expect("lent");
        assert_eq!(held.pieces().concat(), bytes[5..]);
        let places: Vec<_> = held.pieces().iter().map(|piece| piece.as_ptr()).collect();
        drop(held);
        drop(arrival);
        // A concurrent test may have used that group since, but no other test writes these bytes.
        let next = UploadBuffer::new(LEN, vec![]);
        let mut room = next.claim_pinned(0..LEN).unwrap().expect("lent");
        for piece in room.pieces() {
            let again = places.contains(&piece.as_ptr());
            assert!(!again || piece.iter().all(|byte| *byte == 0), "not wiped");
        }
    }

    #[test]
    fn a_failed_payload_has_no_room() {
        let arrival = UploadBuffer::new(LEN, vec![]);
        arrival.fail(crate::error::Error::Cancelled);
        assert!(arrival.claim_pinned(0..LEN).is_err());
    }
}
