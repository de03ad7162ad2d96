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

/// Fewer bytes that fill no group do not take one of lent memory: they are copied once more in less
/// than some 50 us.
const TAIL_MIN: u64 = 512 << 10;

/// A slot of memory that devices reach.
pub(super) type Lent = &'static mut [u8];

/// Groups of such slots, neighbours each, wiped, which nothing uses now.
static LENT: Mutex<Vec<Vec<Lent>>> = Mutex::new(Vec::new());

/// Gives payloads `memory` to lie in, from where and to where devices copy directly: large ones are
/// put there first, for as long as there is some, 16 MiB at a time; what fills no 16 MiB and is not
/// little takes as many. A rest of `memory` that fills no 16 MiB is lost.
pub fn lend(memory: &'static mut [u8]) {
    let groups = memory.chunks_exact_mut(GROUP);
    lock(&LENT).extend(groups.map(|group| group.chunks_exact_mut(SLOT).collect()));
}

/// Memory of 16 MiB of a payload, zeroed on drop.
pub(super) enum Group {
    /// Of the process's own.
    Own(Box<[Mutex<Segment>; WIDTH]>),
    /// Goes back.
    Lent(Slots),
}

/// A group of lent memory.
pub(super) struct Slots {
    /// A lock a slot.
    all: Vec<Mutex<Lent>>,
    /// Of the first ones, which are wiped in the end.
    used: usize,
}

/// What fills no group.
enum Tail {
    /// A group that it does not fill, where memory was lent.
    Lent(Slots),
    /// Slots of the process's own, the last one as long as it has bytes.
    Own(Box<[Mutex<Segment>]>),
}

/// Memory of a payload, in the order of its bytes; taken as they come, not when they are announced.
pub(super) struct Memory {
    len: u64,
    groups: Box<[OnceLock<Group>]>,
    tail: OnceLock<Tail>,
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

impl Slots {
    /// Of which `used` are written, if memory is lent.
    fn take(used: usize) -> Option<Self> {
        let slots = lock(&LENT).pop()?;
        Some(Self { all: slots.into_iter().map(Mutex::new).collect(), used })
    }

    /// Slot number `at` of the group.
    pub fn get(&self, at: usize) -> &Mutex<Lent> {
        &self.all[at]
    }

    fn write(&self, place: &Place, bytes: &[u8]) {
        let mut slot = lock(&self.all[place.slot]);
        slot[place.offset..place.offset + bytes.len()].copy_from_slice(bytes);
    }

    fn see(&self, place: &Place, len: usize, see: &mut impl FnMut(&[u8])) {
        see(&lock(&self.all[place.slot])[place.offset..place.offset + len]);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let slots = self.all.drain(..).enumerate().map(|(at, slot)| {
            let memory = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            if at < self.used {
                bytemuck::cast_slice_mut::<u8, u64>(memory).zeroize();
            }
            memory
        });
        let slots = slots.collect();
        lock(&LENT).push(slots);
    }
}

impl Group {
    /// Lent memory, as long as there is some.
    pub fn new() -> Self {
        Slots::take(GROUP / SLOT).map_or_else(|| Self::Own(Default::default()), Self::Lent)
    }

    fn write(&self, place: &Place, bytes: &[u8]) {
        match self {
            Self::Own(segments) => {
                let offset = place.slot / WIDTH * SLOT + place.offset;
                lock(&segments[place.slot % WIDTH]).write(SEGMENT, offset, bytes);
            }
            Self::Lent(slots) => slots.write(place, bytes),
        }
    }

    fn see(&self, place: &Place, len: usize, see: &mut impl FnMut(&[u8])) {
        match self {
            Self::Own(segments) => {
                let offset = place.slot / WIDTH * SLOT + place.offset;
                see(lock(&segments[place.slot % WIDTH]).bytes(offset, len));
            }
            Self::Lent(slots) => slots.see(place, len, see),
        }
    }
}

impl Tail {
    /// For the last bytes of a payload of `len`.
    fn of(len: u64) -> Self {
        let bytes = len % GROUP as u64;
        let slots = bytes.div_ceil(SLOT as u64) as usize;
        let lent = (bytes >= TAIL_MIN).then(|| Slots::take(slots)).flatten();
        let own = || Self::Own((0..slots).map(|_| Mutex::default()).collect());
        lent.map_or_else(own, Self::Lent)
    }
}

impl Memory {
    /// For `len` bytes.
    pub fn new(len: u64) -> Self {
        let groups = (0..len / GROUP as u64).map(|_| OnceLock::new()).collect();
        Self { len, groups, tail: OnceLock::new() }
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The group of lent memory that byte number `at` is in, if it is in one; with `make`, taken
    /// where nothing has come yet.
    pub fn lent(&self, at: u64, make: bool) -> Option<&Slots> {
        let group = match self.groups.get((at / GROUP as u64) as usize) {
            Some(group) if make => Some(group.get_or_init(Group::new)),
            Some(group) => group.get(),
            None => {
                let tail = if make { Some(self.made_tail()) } else { self.tail.get() };
                return tail.and_then(|tail| match tail {
                    Tail::Lent(slots) => Some(slots),
                    Tail::Own(_) => None,
                });
            }
        };
        group.and_then(|group| match group {
            Group::Lent(slots) => Some(slots),
            Group::Own(_) => None,
        })
    }

    fn made_tail(&self) -> &Tail {
        self.tail.get_or_init(|| Tail::of(self.len))
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
                None => match self.made_tail() {
                    Tail::Lent(slots) => slots.write(&place, now),
                    Tail::Own(slots) => {
                        let size = place.offset + place.run;
                        lock(&slots[place.slot]).write(size, place.offset, now);
                    }
                },
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
            match (place.group.map(|group| self.groups[group].get()), self.tail.get()) {
                (Some(Some(group)), _) => group.see(&place, len, &mut see),
                (None, Some(Tail::Lent(slots))) => slots.see(&place, len, &mut see),
                (None, Some(Tail::Own(slots))) => {
                    see(lock(&slots[place.slot]).bytes(place.offset, len));
                }
                (Some(None), _) | (None, None) => {}
            }
            at += len as u64;
        }
    }

    /// Its parts, of some 64 MiB at least, to be dropped by several threads.
    pub fn into_parts(self, most: usize) -> Vec<Self> {
        const LEAST: usize = 4;
        let Self { groups, tail, .. } = self;
        let mut groups = groups.into_vec();
        let each = groups.len().div_ceil(most).max(LEAST);
        let mut parts = vec![Self { len: 0, groups: Box::default(), tail }];
        while !groups.is_empty() {
            let part = groups.split_off(groups.len().saturating_sub(each));
            parts.push(Self { len: 0, groups: part.into(), tail: OnceLock::new() });
        }
        parts
    }
}
