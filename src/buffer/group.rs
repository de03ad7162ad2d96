//! Payload memory: slots behind locks, organised in groups.

use std::sync::{Mutex, OnceLock, PoisonError};

use zeroize::Zeroize;

use super::{
    segment::{SEGMENT_BYTES, Segment},
    upload_buffer::lock,
};

/// Bytes of a slot, the clients' chunk size: a chunk is one copy under one lock.
pub(super) const SLOT: usize = 256 << 10;

/// Segments of a group. Slots are assigned to them round-robin, so that writers of adjacent chunks
/// on several connections seldom contend for a lock.
const GROUP_SEGMENTS: usize = 8;

/// Bytes of a group.
pub(super) const GROUP: usize = GROUP_SEGMENTS * SEGMENT_BYTES;

/// A smaller tail does not use a lent group: copying it once more takes less than 50 us.
const TAIL_MIN: u64 = 512 << 10;

/// A slot of memory that devices can access.
pub(super) type PinnedSlot = &'static mut [u8];

/// Unused groups of consecutive slots, wiped.
static PINNED_GROUPS: Mutex<Vec<Vec<PinnedSlot>>> = Mutex::new(Vec::new());

/// Lends `memory` to payloads, for devices to copy from and to directly. Payloads use it first, in
/// groups of 16 MiB, of which a tail of at least 512 KiB takes a whole one. A remainder of `memory`
/// of less than 16 MiB is not used.
pub fn lend_pinned(memory: &'static mut [u8]) {
    let groups = memory.chunks_exact_mut(GROUP);
    lock(&PINNED_GROUPS).extend(groups.map(|group| group.chunks_exact_mut(SLOT).collect()));
}

/// 16 MiB of a payload's memory, zeroed on drop.
pub(super) enum SegmentGroup {
    /// Memory of the process.
    Heap(Box<[Mutex<Segment>; GROUP_SEGMENTS]>),
    /// Lent memory, which drop returns.
    Pinned(LentSlots),
}

/// A group of lent memory.
pub(super) struct LentSlots {
    /// One lock per slot.
    slots: Vec<Mutex<PinnedSlot>>,
    /// The number of leading slots that the payload uses; drop wipes them.
    used: usize,
}

/// The end of a payload that does not fill a group.
enum PayloadTail {
    /// Part of a lent group.
    Lent(LentSlots),
    /// Memory of the process; the last slot is as long as its bytes.
    Own(Box<[Mutex<Segment>]>),
}

/// A payload's memory, in byte order, allocated as bytes are received, not when they are announced.
pub(super) struct PayloadMemory {
    len: u64,
    groups: Box<[OnceLock<SegmentGroup>]>,
    tail: OnceLock<PayloadTail>,
}

/// The location of a byte.
struct SlotPosition {
    /// Index of the group; `None` for the tail.
    group: Option<usize>,
    /// Index of the slot in the group or tail.
    slot: usize,
    /// Offset in the slot.
    offset: usize,
    /// Bytes in the slot from this one to the end.
    len: usize,
}

impl LentSlots {
    /// Takes a lent group, if there is one, for a payload that uses its first `used` slots.
    fn take(used: usize) -> Option<Self> {
        let slots = lock(&PINNED_GROUPS).pop()?;
        Some(Self { slots: slots.into_iter().map(Mutex::new).collect(), used })
    }

    /// Slot number `at` of the group.
    pub fn get(&self, at: usize) -> &Mutex<PinnedSlot> {
        &self.slots[at]
    }

    fn write(&self, place: &SlotPosition, bytes: &[u8]) {
        let mut slot = lock(&self.slots[place.slot]);
        slot[place.offset..place.offset + bytes.len()].copy_from_slice(bytes);
    }

    fn visit(&self, place: &SlotPosition, len: usize, see: &mut impl FnMut(&[u8])) {
        see(&lock(&self.slots[place.slot])[place.offset..place.offset + len]);
    }
}

impl Drop for LentSlots {
    fn drop(&mut self) {
        let slots = self.slots.drain(..).enumerate().map(|(at, slot)| {
            let memory = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            if at < self.used {
                bytemuck::cast_slice_mut::<u8, u64>(memory).zeroize();
            }
            memory
        });
        let slots = slots.collect();
        lock(&PINNED_GROUPS).push(slots);
    }
}

impl SegmentGroup {
    /// Lent memory if there is some, else the process's own.
    pub fn new() -> Self {
        LentSlots::take(GROUP / SLOT).map_or_else(|| Self::Heap(Default::default()), Self::Pinned)
    }

    fn write(&self, place: &SlotPosition, bytes: &[u8]) {
        match self {
            Self::Heap(segments) => {
                let offset = place.slot / GROUP_SEGMENTS * SLOT + place.offset;
                lock(&segments[place.slot % GROUP_SEGMENTS]).write(SEGMENT_BYTES, offset, bytes);
            }
            Self::Pinned(slots) => slots.write(place, bytes),
        }
    }

    fn see(&self, place: &SlotPosition, len: usize, see: &mut impl FnMut(&[u8])) {
        match self {
            Self::Heap(segments) => {
                let offset = place.slot / GROUP_SEGMENTS * SLOT + place.offset;
                see(lock(&segments[place.slot % GROUP_SEGMENTS]).bytes(offset, len));
            }
            Self::Pinned(slots) => slots.visit(place, len, see),
        }
    }
}

impl PayloadTail {
    /// For the last bytes of a payload of `len`.
    fn of(len: u64) -> Self {
        let bytes = len % GROUP as u64;
        let slots = bytes.div_ceil(SLOT as u64) as usize;
        let lent = (bytes >= TAIL_MIN).then(|| LentSlots::take(slots)).flatten();
        let own = || Self::Own((0..slots).map(|_| Mutex::default()).collect());
        lent.map_or_else(own, Self::Lent)
    }
}

impl PayloadMemory {
    /// For a payload of `len` bytes.
    pub fn new(len: u64) -> Self {
        let groups = (0..len / GROUP as u64).map(|_| OnceLock::new()).collect();
        Self { len, groups, tail: OnceLock::new() }
    }

    /// Bytes of the payload.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The lent group that holds byte number `at`; `None` if the byte is not in lent memory. If
    /// `make` is set, allocates memory that does not exist yet.
    pub fn pinned_group(&self, at: u64, make: bool) -> Option<&LentSlots> {
        let group = match self.groups.get((at / GROUP as u64) as usize) {
            Some(group) if make => Some(group.get_or_init(SegmentGroup::new)),
            Some(group) => group.get(),
            None => {
                let tail = if make { Some(self.tail_or_alloc()) } else { self.tail.get() };
                return tail.and_then(|tail| match tail {
                    PayloadTail::Lent(slots) => Some(slots),
                    PayloadTail::Own(_) => None,
                });
            }
        };
        group.and_then(|group| match group {
            SegmentGroup::Pinned(slots) => Some(slots),
            SegmentGroup::Heap(_) => None,
        })
    }

    fn tail_or_alloc(&self) -> &PayloadTail {
        self.tail.get_or_init(|| PayloadTail::of(self.len))
    }

    /// Shape: `at < len`.
    fn locate(&self, at: u64) -> SlotPosition {
        let (group, within) = ((at / GROUP as u64) as usize, (at % GROUP as u64) as usize);
        let (slot, offset) = (within / SLOT, within % SLOT);
        let run = (SLOT - offset).min((self.len - at).try_into().unwrap_or(SLOT));
        SlotPosition { group: (group < self.groups.len()).then_some(group), slot, offset, len: run }
    }

    /// Writes `bytes`, starting at byte number `at`.
    pub fn write(&self, at: u64, mut bytes: &[u8]) {
        let mut at = at;
        while !bytes.is_empty() {
            let place = self.locate(at);
            let (now, later) = bytes.split_at(place.len.min(bytes.len()));
            match place.group {
                Some(group) => self.groups[group].get_or_init(SegmentGroup::new).write(&place, now),
                None => match self.tail_or_alloc() {
                    PayloadTail::Lent(slots) => slots.write(&place, now),
                    PayloadTail::Own(slots) => {
                        let size = place.offset + place.len;
                        lock(&slots[place.slot]).write(size, place.offset, now);
                    }
                },
            }
            (at, bytes) = (at + now.len() as u64, later);
        }
    }

    /// Passes `len` bytes from number `at` on to `see` in pieces, skipping unallocated memory.
    pub fn for_each_piece(&self, at: u64, len: usize, mut see: impl FnMut(&[u8])) {
        let end = at + len as u64;
        let mut at = at;
        while at < end {
            let place = self.locate(at);
            let len = place.len.min((end - at) as usize);
            match (place.group.map(|group| self.groups[group].get()), self.tail.get()) {
                (Some(Some(group)), _) => group.see(&place, len, &mut see),
                (None, Some(PayloadTail::Lent(slots))) => slots.visit(&place, len, &mut see),
                (None, Some(PayloadTail::Own(slots))) => {
                    see(lock(&slots[place.slot]).bytes(place.offset, len));
                }
                (Some(None), _) | (None, None) => {}
            }
            at += len as u64;
        }
    }

    /// Splits the memory into parts of at least 64 MiB, for several threads to drop.
    pub fn into_parts(self, most: usize) -> Vec<Self> {
        const GROUPS_MIN: usize = 4;
        let Self { groups, tail, .. } = self;
        let mut groups = groups.into_vec();
        let each = groups.len().div_ceil(most).max(GROUPS_MIN);
        let mut parts = vec![Self { len: 0, groups: Box::default(), tail }];
        while !groups.is_empty() {
            let part = groups.split_off(groups.len().saturating_sub(each));
            parts.push(Self { len: 0, groups: part.into(), tail: OnceLock::new() });
        }
        parts
    }
}
