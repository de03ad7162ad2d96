//! A payload's memory: slots behind locks, organised in groups.

use std::{mem, ops::Range, sync::OnceLock, thread};

use parking_lot::Mutex;

use super::{
    PayloadPool, QuotaPermit, RegionSlice,
    pool::{GROUP, GROUP_SEGMENTS, PinnedSlot, SEGMENT_BYTES, SLOT, wipe},
    segment::Segment,
};

/// A smaller tail uses no pinned group: it is copied once more, in less than 50 us
/// (`benches/experiments/transport.md`).
const PINNED_TAIL_MIN: usize = 512 << 10;

/// Threads that wipe one payload, each at least 64 MiB (`benches/experiments/transport.md`).
const WIPING_THREADS: usize = 4;
const GROUPS_PER_THREAD_MIN: usize = 4;

/// A payload's memory, in byte order, allocated as bytes are received, not when they are announced.
/// Zeroed on drop.
///
/// A panic during a copy leaves bytes that are not marked as received, so the data stays sound.
pub(super) struct PayloadMemory {
    pub len: u64,
    pub pool: PayloadPool,
    /// Where the payload lies, if not in groups.
    pub region: Option<RegionSlice>,
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

/// Pinned memory, which drop wipes and returns.
struct PinnedGroup {
    slots: Vec<PinnedSlot>,
    /// The number of leading slots that the payload uses; drop wipes them.
    used: usize,
    pool: PayloadPool,
}

/// A range of bytes in one slot.
pub(super) struct SlotRange {
    group: usize,
    /// Index in the group.
    slot: usize,
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
    fn segment(&self, slot: usize) -> &Mutex<Segment> {
        &self.segments[slot % self.segments.len()]
    }

    fn segment_bytes(&self, slot: usize) -> usize {
        if self.bytes == GROUP { SEGMENT_BYTES } else { (self.bytes - slot * SLOT).min(SLOT) }
    }

    /// The first byte of a slot in its segment.
    fn offset(&self, slot: usize) -> usize {
        slot / self.segments.len() * SLOT
    }
}

impl Drop for PinnedGroup {
    fn drop(&mut self) {
        self.slots[..self.used].iter_mut().for_each(|slot| wipe(slot.get_mut()));
        self.pool.return_pinned(mem::take(&mut self.slots));
    }
}

impl SegmentGroup {
    /// For `bytes` bytes: pinned memory if there is some, else other memory.
    fn new(pool: &PayloadPool, bytes: usize) -> Self {
        let used = bytes.div_ceil(SLOT);
        if bytes >= PINNED_TAIL_MIN
            && let Some(slots) = pool.take_pinned()
        {
            return Self::Pinned(PinnedGroup { slots, used, pool: pool.clone() });
        }
        let segments = if bytes == GROUP { GROUP_SEGMENTS } else { used };
        let segments = (0..segments).map(|_| Mutex::default()).collect();
        Self::Unpinned(UnpinnedGroup { segments, bytes })
    }

    fn write(&self, pool: &PayloadPool, to: SlotRange, bytes: &[u8]) {
        match self {
            Self::Unpinned(group) => {
                let (size, offset) = (group.segment_bytes(to.slot), group.offset(to.slot));
                group.segment(to.slot).lock().write(pool, size, offset + to.bytes.start, bytes);
            }
            Self::Pinned(group) => group.slots[to.slot].lock()[to.bytes].copy_from_slice(bytes),
        }
    }

    fn read(&self, from: SlotRange, read: &mut impl FnMut(&[u8])) {
        match self {
            Self::Unpinned(group) => {
                let offset = group.offset(from.slot) + from.bytes.start;
                read(group.segment(from.slot).lock().bytes(offset, from.bytes.len()));
            }
            Self::Pinned(group) => read(&group.slots[from.slot].lock()[from.bytes]),
        }
    }
}

impl PayloadMemory {
    /// For a payload of `len` bytes. `permits` are returned once its memory is wiped.
    pub fn new(pool: PayloadPool, len: u64, permits: Vec<QuotaPermit>) -> Self {
        let groups = (0..len.div_ceil(GROUP as u64)).map(|_| OnceLock::new()).collect();
        Self { len, pool, region: None, groups, _permits: permits }
    }

    /// A payload in memory shared with a client, which is not wiped.
    pub fn in_region(pool: PayloadPool, region: RegionSlice) -> Self {
        let mut memory = Self::new(pool, 0, Vec::new());
        memory.len = region.size();
        memory.region = Some(region);
        memory
    }

    /// The pinned memory of `slot`, if it has some. If `allocate` is set, allocates memory that
    /// does not exist yet.
    pub fn pinned_slot(&self, slot: &SlotRange, allocate: bool) -> Option<&PinnedSlot> {
        let group = if allocate { Some(self.group(slot)) } else { self.groups[slot.group].get() };
        match group? {
            SegmentGroup::Pinned(group) => Some(&group.slots[slot.slot]),
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
        if let Some(region) = &self.region {
            return region.write(start, bytes);
        }
        let mut rest = bytes;
        for slot in slots(start..start + bytes.len() as u64) {
            let (piece, later) = rest.split_at(slot.bytes.len());
            self.group(&slot).write(&self.pool, slot, piece);
            rest = later;
        }
    }

    /// Copies `out.len()` bytes from `start` on. They must have been written.
    pub fn read(&self, start: u64, out: &mut [u8]) {
        if let Some(region) = &self.region {
            return region.read(start, out);
        }
        let mut copied = 0;
        self.for_each_piece(start..start + out.len() as u64, |piece| {
            out[copied..copied + piece.len()].copy_from_slice(piece);
            copied += piece.len();
        });
    }

    /// Passes the bytes of `range`, not in a region, to `read` in pieces, skipping unallocated
    /// memory.
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
