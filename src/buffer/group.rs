//! Where the bytes of a payload lie: slots of memory behind locks, whole groups of them together.

use std::sync::{Mutex, OnceLock, PoisonError};

use zeroize::Zeroize;

use super::{
    arrival::lock,
    segment::{SEGMENT, Segment},
};

/// Bytes of a slot, the clients' chunk size: a chunk is one copy under one lock.
pub(super) const SLOT: usize = 256 << 10;

/// Segments of a group. Slots are dealt to them in turn, so that writers on several connections,
/// whose chunks are neighbours, seldom meet at the same lock.
const WIDTH: usize = 8;

/// Bytes of a group.
pub(super) const GROUP: usize = WIDTH * SEGMENT;

/// A slot of memory that devices reach.
pub(super) type Lent = &'static mut [u8];

/// Groups of such slots, neighbours each, wiped, which nothing uses now.
static LENT: Mutex<Vec<Vec<Lent>>> = Mutex::new(Vec::new());

/// Gives payloads `memory` to lie in, from where and to where devices copy directly: large ones are
/// put there first, for as long as there is some. A rest that fills no 16 MiB is lost.
pub fn lend(memory: &'static mut [u8]) {
    let groups = memory.chunks_exact_mut(GROUP);
    lock(&LENT).extend(groups.map(|group| group.chunks_exact_mut(SLOT).collect()));
}

/// Memory of 16 MiB of a payload, zeroed on drop.
pub(super) enum Group {
    /// Of the process's own.
    Own(Box<[Mutex<Segment>; WIDTH]>),
    /// A lock a slot. Goes back.
    Lent(Vec<Mutex<Lent>>),
}

/// Memory of a payload, in the order of its bytes; taken as they come, not when they are announced.
pub(super) struct Memory {
    len: u64,
    groups: Box<[OnceLock<Group>]>,
    /// Slots of what fills no group.
    rest: Box<[Mutex<Segment>]>,
}

/// Where a byte is.
struct Place {
    /// Of which group; `None` of what is behind them.
    group: Option<usize>,
    /// Which slot of the group, or of the rest.
    slot: usize,
    /// Where in it.
    offset: usize,
    /// How many bytes follow there, this one included.
    run: usize,
}

impl Group {
    /// Lent memory, as long as there is some.
    pub fn new() -> Self {
        match lock(&LENT).pop() {
            Some(slots) => Self::Lent(slots.into_iter().map(Mutex::new).collect()),
            None => Self::Own(Default::default()),
        }
    }

    fn write(&self, place: &Place, bytes: &[u8]) {
        match self {
            Self::Own(segments) => {
                let offset = place.slot / WIDTH * SLOT + place.offset;
                lock(&segments[place.slot % WIDTH]).write(SEGMENT, offset, bytes);
            }
            Self::Lent(slots) => {
                let mut slot = lock(&slots[place.slot]);
                slot[place.offset..place.offset + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    fn see(&self, place: &Place, len: usize, see: &mut impl FnMut(&[u8])) {
        match self {
            Self::Own(segments) => {
                let offset = place.slot / WIDTH * SLOT + place.offset;
                see(lock(&segments[place.slot % WIDTH]).bytes(offset, len));
            }
            Self::Lent(slots) => see(&lock(&slots[place.slot])[place.offset..place.offset + len]),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Self::Lent(slots) = self else { return };
        let slots = slots.drain(..).map(|slot| {
            let memory = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            bytemuck::cast_slice_mut::<u8, u64>(memory).zeroize();
            memory
        });
        let slots = slots.collect();
        lock(&LENT).push(slots);
    }
}

impl Memory {
    /// For `len` bytes.
    pub fn new(len: u64) -> Self {
        let (groups, rest) = (len / GROUP as u64, len % GROUP as u64);
        let groups = (0..groups).map(|_| OnceLock::new()).collect();
        let rest = (0..rest.div_ceil(SLOT as u64)).map(|_| Mutex::default()).collect();
        Self { len, groups, rest }
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The group that byte number `at` is in, if it is in one.
    pub fn group(&self, at: u64) -> Option<&OnceLock<Group>> {
        self.groups.get((at / GROUP as u64) as usize)
    }

    /// Shape: `at < len`.
    fn place(&self, at: u64) -> Place {
        let (group, within) = ((at / GROUP as u64) as usize, (at % GROUP as u64) as usize);
        let (slot, offset) = (within / SLOT, within % SLOT);
        let run = (SLOT - offset).min((self.len - at).try_into().unwrap_or(SLOT));
        Place { group: (group < self.groups.len()).then_some(group), slot, offset, run }
    }

    /// Puts `bytes` where number `at` is.
    pub fn write(&self, at: u64, mut bytes: &[u8]) {
        let mut at = at;
        while !bytes.is_empty() {
            let place = self.place(at);
            let (now, later) = bytes.split_at(place.run.min(bytes.len()));
            match place.group {
                Some(group) => self.groups[group].get_or_init(Group::new).write(&place, now),
                None => {
                    // The last slot is as long as it has bytes.
                    let size = place.offset + place.run;
                    lock(&self.rest[place.slot]).write(size, place.offset, now);
                }
            }
            (at, bytes) = (at + now.len() as u64, later);
        }
    }

    /// Shows `len` bytes from number `at` on, piece by piece, but for what has not come.
    pub fn see(&self, at: u64, len: usize, mut see: impl FnMut(&[u8])) {
        let end = at + len as u64;
        let mut at = at;
        while at < end {
            let place = self.place(at);
            let len = place.run.min((end - at) as usize);
            match place.group.map(|group| self.groups[group].get()) {
                Some(Some(group)) => group.see(&place, len, &mut see),
                Some(None) => {}
                None => see(lock(&self.rest[place.slot]).bytes(place.offset, len)),
            }
            at += len as u64;
        }
    }

    /// Its parts, of some 64 MiB at least, to be dropped by several threads.
    pub fn into_parts(self, most: usize) -> Vec<Self> {
        const LEAST: usize = 4;
        let Self { groups, rest, .. } = self;
        let mut groups = groups.into_vec();
        let each = groups.len().div_ceil(most).max(LEAST);
        let mut parts = vec![Self { len: 0, groups: Box::default(), rest }];
        while !groups.is_empty() {
            let part = groups.split_off(groups.len().saturating_sub(each));
            parts.push(Self { len: 0, groups: part.into(), rest: Box::default() });
        }
        parts
    }
}
