//! A payload's memory: slots behind locks, organised in groups.

use std::{
    ops::Range,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use super::{
    PayloadPool, QuotaPermit,
    pool::{GROUP, GROUP_SEGMENTS, PinnedSlot, SEGMENT_BYTES, SLOT, lock, wipe},
    segment::Segment,
};

/// A smaller tail uses no pinned group: copying it once more takes less than 50 us.
const PINNED_TAIL_MIN: usize = 512 << 10;

/// Threads that wipe one payload; each wipes at least 64 MiB, in about 7 ms.
const WIPING_THREADS: usize = 4;
const GROUPS_PER_THREAD_MIN: usize = 4;

/// A payload's memory, in byte order, allocated as bytes are received, not when they are announced.
/// Zeroed on drop.
pub(super) struct PayloadMemory {
    len: u64,
    pool: PayloadPool,
    groups: Box<[OnceLock<SegmentGroup>]>,
    /// Returned after the groups.
    _permits: Vec<QuotaPermit>,
}

/// Up to 16 MiB of a payload's memory.
enum SegmentGroup {
    Unpinned(UnpinnedGroup),
    Pinned(PinnedGroup),
}

/// A full group has segments of 2 MiB, a tail one per slot, the last one as long as its bytes.
struct UnpinnedGroup {
    segments: Box<[Mutex<Segment>]>,
    bytes: usize,
}

/// The location of a slot in an [`UnpinnedGroup`].
struct SlotSegment<'a> {
    segment: &'a Mutex<Segment>,
    segment_bytes: usize,
    /// Offset of the slot in the segment.
    offset: usize,
}

/// Pinned memory, which drop wipes and returns.
pub(super) struct PinnedGroup {
    /// One lock per slot.
    slots: Vec<Mutex<PinnedSlot>>,
    /// The number of leading slots that the payload uses; drop wipes them.
    used: usize,
    pool: PayloadPool,
}

/// A range of bytes in one slot.
pub(super) struct SlotRange {
    group: usize,
    /// Index of the slot in the group.
    pub slot: usize,
    /// The bytes in the slot.
    pub bytes: Range<usize>,
}

/// The slots that hold the bytes of `range`, in order.
pub(super) fn slots(range: Range<u64>) -> impl Iterator<Item = SlotRange> {
    let Range { mut start, end } = range;
    std::iter::from_fn(move || {
        let (group, in_group) = ((start / GROUP as u64) as usize, (start % GROUP as u64) as usize);
        let (slot, offset) = (in_group / SLOT, in_group % SLOT);
        let len = (end - start).min((SLOT - offset) as u64);
        start += len;
        (len > 0).then_some(SlotRange { group, slot, bytes: offset..offset + len as usize })
    })
}

impl UnpinnedGroup {
    fn slot(&self, slot: usize) -> SlotSegment<'_> {
        let (segment, segment_bytes, offset) = if self.bytes == GROUP {
            (slot % GROUP_SEGMENTS, SEGMENT_BYTES, slot / GROUP_SEGMENTS * SLOT)
        } else {
            (slot, (self.bytes - slot * SLOT).min(SLOT), 0)
        };
        SlotSegment { segment: &self.segments[segment], segment_bytes, offset }
    }
}

impl PinnedGroup {
    fn take(pool: &PayloadPool, used: usize) -> Option<Self> {
        let slots = pool.take_pinned()?.into_iter().map(Mutex::new).collect();
        Some(Self { slots, used, pool: pool.clone() })
    }

    pub fn slot(&self, slot: usize) -> &Mutex<PinnedSlot> {
        &self.slots[slot]
    }
}

impl Drop for PinnedGroup {
    fn drop(&mut self) {
        let slots = self.slots.drain(..).map(|slot| slot.into_inner());
        let mut slots: Vec<_> =
            slots.map(|slot| slot.unwrap_or_else(PoisonError::into_inner)).collect();
        slots[..self.used].iter_mut().for_each(|slot| wipe(slot));
        self.pool.return_pinned(slots);
    }
}

impl SegmentGroup {
    /// For `bytes` bytes: pinned memory if there is some, else other memory.
    fn new(pool: &PayloadPool, bytes: usize) -> Self {
        let slots = bytes.div_ceil(SLOT);
        let segments = if bytes == GROUP { GROUP_SEGMENTS } else { slots };
        let unpinned =
            || UnpinnedGroup { segments: (0..segments).map(|_| Mutex::default()).collect(), bytes };
        let pinned = (bytes >= PINNED_TAIL_MIN).then(|| PinnedGroup::take(pool, slots)).flatten();
        pinned.map_or_else(|| Self::Unpinned(unpinned()), Self::Pinned)
    }

    fn write(&self, pool: &PayloadPool, to: SlotRange, bytes: &[u8]) {
        match self {
            Self::Unpinned(group) => {
                let SlotSegment { segment, segment_bytes, offset } = group.slot(to.slot);
                lock(segment).write(pool, segment_bytes, offset + to.bytes.start, bytes);
            }
            Self::Pinned(group) => lock(group.slot(to.slot))[to.bytes].copy_from_slice(bytes),
        }
    }

    fn read(&self, from: SlotRange, read: &mut impl FnMut(&[u8])) {
        match self {
            Self::Unpinned(group) => {
                let SlotSegment { segment, offset, .. } = group.slot(from.slot);
                read(lock(segment).bytes(offset + from.bytes.start, from.bytes.len()));
            }
            Self::Pinned(group) => read(&lock(group.slot(from.slot))[from.bytes]),
        }
    }
}

impl PayloadMemory {
    /// For a payload of `len` bytes. `permits` are returned once its memory is wiped.
    pub fn new(pool: PayloadPool, len: u64, permits: Vec<QuotaPermit>) -> Self {
        let groups = (0..len.div_ceil(GROUP as u64)).map(|_| OnceLock::new()).collect();
        Self { len, pool, groups, _permits: permits }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn pool(&self) -> &PayloadPool {
        &self.pool
    }

    /// The pinned group that holds `slot`; `None` if the slot is not in pinned memory. If
    /// `allocate` is set, allocates memory that does not exist yet.
    pub fn pinned_group(&self, slot: &SlotRange, allocate: bool) -> Option<&PinnedGroup> {
        let group = if allocate { Some(self.group(slot)) } else { self.groups[slot.group].get() };
        match group? {
            SegmentGroup::Pinned(group) => Some(group),
            SegmentGroup::Unpinned(_) => None,
        }
    }

    fn group(&self, slot: &SlotRange) -> &SegmentGroup {
        self.groups[slot.group].get_or_init(|| {
            let bytes = self.len - (slot.group * GROUP) as u64;
            SegmentGroup::new(&self.pool, bytes.min(GROUP as u64) as usize)
        })
    }

    /// Writes `bytes`, starting at byte number `start`.
    pub fn write(&self, start: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for slot in slots(start..start + bytes.len() as u64) {
            let (piece, later) = rest.split_at(slot.bytes.len());
            self.group(&slot).write(&self.pool, slot, piece);
            rest = later;
        }
    }

    /// Passes the bytes of `range` to `read` in pieces, skipping unallocated memory.
    pub fn for_each_piece(&self, range: Range<u64>, mut read: impl FnMut(&[u8])) {
        for slot in slots(range) {
            if let Some(group) = self.groups[slot.group].get() {
                group.read(slot, &mut read);
            }
        }
    }
}

impl Drop for PayloadMemory {
    /// Wipes on several threads, since the next payload needs the memory.
    fn drop(&mut self) {
        fn wipe_groups(groups: &mut [OnceLock<SegmentGroup>]) {
            groups.iter_mut().for_each(|group| drop(group.take()));
        }
        let groups = self.groups.len().div_ceil(WIPING_THREADS).max(GROUPS_PER_THREAD_MIN);
        let mut parts = self.groups.chunks_mut(groups);
        let own_part = parts.next();
        thread::scope(|scope| {
            for part in parts {
                // If no thread can be spawned, this thread wipes the part when it drops the field.
                let _wiped = thread::Builder::new().spawn_scoped(scope, || wipe_groups(part));
            }
            own_part.map(wipe_groups)
        });
    }
}
