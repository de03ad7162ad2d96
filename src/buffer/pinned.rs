//! Direct access to payload bytes in pinned memory, which devices copy from and to without staging.

use std::ops::Range;

use parking_lot::{MappedMutexGuard, MutexGuard};

use super::{UploadBuffer, group::slots};
use crate::error::Result;

/// Payload bytes, in place until this is dropped.
pub enum PinnedRead<'a> {
    /// Locked against writers.
    Slots(Vec<LockedSlot<'a>>),
    /// In memory shared with a client. Only devices may read them.
    Region(&'a [u8]),
}

/// Claimed memory for payload bytes to come; they count as received after [`PinnedWrite::commit`].
pub struct PinnedWrite<'a> {
    upload: &'a UploadBuffer,
    start: u64,
    memory: ClaimedMemory<'a>,
}

enum ClaimedMemory<'a> {
    Slots(Vec<LockedSlot<'a>>),
    Region(&'a mut [u8]),
}

/// A range of a slot, which is locked against other readers and writers.
pub type LockedSlot<'a> = MappedMutexGuard<'a, [u8]>;

impl UploadBuffer {
    /// Locks the longest prefix of `range` that lies in pinned memory; `None` if that is empty. All
    /// of `range` must have been received.
    pub fn lock_pinned(&self, range: Range<u64>) -> Option<PinnedRead<'_>> {
        debug_assert!(self.has_received(range.clone()), "locks received bytes");
        if let Some(region) = &self.memory.region {
            return region.device_source(&range).map(PinnedRead::Region);
        }
        let slots = self.lock_slots(range, false);
        (!slots.is_empty()).then_some(PinnedRead::Slots(slots))
    }

    /// Claims and locks the longest prefix of `range` that can lie in pinned memory. `None` if that
    /// is empty or if part of it already has a writer.
    pub fn claim_pinned(&self, range: Range<u64>) -> Result<Option<PinnedWrite<'_>>> {
        let start = range.start;
        let memory = match &self.memory.region {
            Some(region) => match region.device_destination(&range) {
                Some(memory) => ClaimedMemory::Region(memory),
                None => return Ok(None),
            },
            None => ClaimedMemory::Slots(self.lock_slots(range, true)),
        };
        let write = PinnedWrite { upload: self, start, memory };
        Ok(self.claim(start..start + write.bytes())?.then_some(write))
    }

    /// If `allocate` is set, allocates memory that does not exist yet.
    fn lock_slots(&self, range: Range<u64>, allocate: bool) -> Vec<LockedSlot<'_>> {
        // Always in ascending order, to avoid deadlock.
        let slots = slots(range).map_while(|slot| {
            let memory = self.memory.pinned_slot(&slot, allocate)?.lock();
            Some(MutexGuard::map(memory, |memory| &mut memory[slot.bytes]))
        });
        slots.collect()
    }
}

fn bytes(slots: &[LockedSlot<'_>]) -> u64 {
    slots.iter().map(|slot| slot.len() as u64).sum()
}

impl PinnedRead<'_> {
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Slots(slots) => bytes(slots),
            Self::Region(memory) => memory.len() as u64,
        }
    }

    /// The bytes, in the order of the payload.
    pub fn pieces(&self) -> Vec<&[u8]> {
        match self {
            Self::Slots(slots) => slots.iter().map(|slot| &**slot).collect(),
            Self::Region(memory) => vec![memory],
        }
    }
}

impl PinnedWrite<'_> {
    pub fn bytes(&self) -> u64 {
        match &self.memory {
            ClaimedMemory::Slots(slots) => bytes(slots),
            ClaimedMemory::Region(memory) => memory.len() as u64,
        }
    }

    /// The memory to write to, in order. Only devices may write to memory of a region.
    pub fn pieces(&mut self) -> Vec<&mut [u8]> {
        match &mut self.memory {
            ClaimedMemory::Slots(slots) => slots.iter_mut().map(|slot| &mut **slot).collect(),
            ClaimedMemory::Region(memory) => vec![&mut **memory],
        }
    }

    pub fn commit(self) {
        let received = self.start..self.start + self.bytes();
        drop(self.memory);
        self.upload.mark_received(&[received]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{super::PayloadPool, *};

    /// Two groups, and a tail too small to use pinned memory.
    const LEN: u64 = (32 << 20) + 1000;

    fn pool(pinned_bytes: usize) -> PayloadPool {
        PayloadPool::new(0, vec![vec![0; pinned_bytes].leak()])
    }

    fn fill(write: &mut PinnedWrite<'_>, bytes: &[u8]) {
        let mut rest = bytes;
        for piece in write.pieces() {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        }
    }

    #[test]
    fn holds_bytes_in_pinned_memory_only() {
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 37 % 251) as u8).collect();
        let upload = UploadBuffer::new(&pool(64 << 20), LEN, vec![]);
        assert!(upload.claim_pinned(LEN - 10..LEN).unwrap().is_none(), "the tail is on the heap");
        for (start, end) in [(0, 5_000_000), (5_000_000, 17_000_001), (17_000_001, LEN)] {
            let mut write = upload.claim_pinned(start..end).unwrap().expect("pinned");
            let until = start + write.bytes();
            assert_eq!(until, end.min(32 << 20));
            fill(&mut write, &bytes[start as usize..]);
            assert!(!upload.has_received(start..start + 1), "not received before `commit`");
            write.commit();
            assert!(upload.has_received(start..until));
            let again = upload.claim_pinned(start..until).unwrap();
            assert!(again.is_none(), "each byte is written once");
        }
        upload.write(32 << 20, &bytes[32 << 20..]).unwrap();
        assert!(upload.is_complete());
        for (start, end) in [(3, LEN), (3, 5), (300_000, 900_000), (31 << 20, 32 << 20)] {
            let read = upload.lock_pinned(start..end).expect("pinned");
            let end = end.min(32 << 20);
            assert_eq!(read.bytes(), end - start);
            assert_eq!(read.pieces().concat(), bytes[start as usize..end as usize]);
        }
        assert_eq!(upload.copy(0, LEN as usize), bytes);
        assert!(upload.lock_pinned(LEN - 1..LEN).is_none());
    }

    /// The bytes after its end in the group are unused, and its own bytes are wiped.
    #[test]
    fn a_payload_smaller_than_a_group_uses_pinned_memory() {
        const LEN: u64 = (3 << 20) + 77;
        let pool = pool(16 << 20);
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31 % 253 + 1) as u8).collect();
        let upload = UploadBuffer::new(&pool, LEN, vec![]);
        let mut write = upload.claim_pinned(1 << 20..LEN).unwrap().expect("pinned");
        assert_eq!(write.bytes(), LEN - (1 << 20));
        fill(&mut write, &bytes[1 << 20..]);
        write.commit();
        upload.write(0, &bytes[..1 << 20]).unwrap();
        let read = upload.lock_pinned(5..LEN).expect("pinned");
        assert_eq!(read.pieces().concat(), bytes[5..]);
        drop(read);
        let unpinned = UploadBuffer::new(&pool, LEN, vec![]);
        assert!(unpinned.claim_pinned(0..LEN).unwrap().is_none(), "the only group is in use");
        drop(upload);
        // Dropped after the payload.
        let (sender, receiver) = channel::<()>();
        pool.wiper().drop_later(sender);
        assert!(receiver.recv().is_err());
        let next = UploadBuffer::new(&pool, LEN, vec![]);
        let mut write = next.claim_pinned(0..LEN).unwrap().expect("pinned");
        assert!(write.pieces().concat().iter().all(|byte| *byte == 0), "not wiped");
    }

    #[test]
    fn a_failed_payload_cannot_be_claimed() {
        let upload = UploadBuffer::new(&pool(0), LEN, vec![]);
        upload.fail(crate::error::Error::Cancelled);
        assert!(upload.claim_pinned(0..LEN).is_err());
    }
}
