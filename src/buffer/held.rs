//! Bytes of a payload where they lie, for devices that copy from there and to there themselves.

use std::{
    ops::Range,
    sync::{MutexGuard, PoisonError},
};

use super::{
    Arrival,
    segment::{self, SLOT, Segment},
};
use crate::error::Result;

/// Bytes that stay where they are, and as they are, until this is dropped.
pub struct Held<'a>(Locked<'a>);

/// Room for bytes of a payload that are to come; they count once they have landed.
pub struct Room<'a> {
    arrival: &'a Arrival,
    range: Range<u64>,
    locked: Locked<'a>,
}

/// Segments of lent memory, none of which anybody else reads or writes meanwhile.
struct Locked<'a> {
    segments: Vec<MutexGuard<'a, Segment>>,
    /// Which of them, and what of it, in the payload's order: parts of one slot each.
    runs: Vec<(usize, Range<usize>)>,
}

impl Arrival {
    /// The bytes from number `range.start` on, as many of `range` as lie in memory that devices
    /// reach, one after the other. All of `range` must have landed. `None` where not even the first
    /// does.
    pub fn hold(&self, range: Range<u64>) -> Option<Held<'_>> {
        debug_assert!(self.has(range.clone()), "holds what has landed");
        let locked = self.locked(range, |_, _| ());
        (!locked.runs.is_empty()).then_some(Held(locked))
    }

    /// Room for the bytes from number `range.start` on, as many of `range` as can lie in memory
    /// that devices reach. `None` where not even the first can, or where some have a writer.
    ///
    /// Errors: what the payload was given up for.
    pub fn room(&self, range: Range<u64>) -> Result<Option<Room<'_>>> {
        let locked = self.locked(range.clone(), Segment::appear);
        let range = range.start..range.start + locked.bytes();
        let fresh = self.claim_all(&range)?;
        Ok(fresh.then_some(Room { arrival: self, range, locked }))
    }

    /// `see` is told of every segment and how large it is.
    fn locked(&self, range: Range<u64>, see: impl Fn(&mut Segment, usize)) -> Locked<'_> {
        let mut at = range.start;
        let mut places = Vec::new();
        while at < range.end {
            let mut place = segment::place(self.len(), at);
            place.run = place.run.min((range.end - at) as usize);
            at += place.run as u64;
            places.push(place);
        }
        let mut sizes: Vec<_> = places.iter().map(|p| (p.segment, p.size)).collect();
        // In this order, so that nobody waits for whom waits for him.
        sizes.sort_unstable();
        sizes.dedup();
        let lock = |&(number, size): &(usize, usize)| {
            let segment = self.segments()[number].lock();
            let mut segment = segment.unwrap_or_else(PoisonError::into_inner);
            see(&mut segment, size);
            segment
        };
        let segments: Vec<_> = sizes.iter().map(lock).collect();
        let number = |segment| sizes.binary_search_by_key(&segment, |(number, _)| *number).ok();
        let runs = places.iter().map_while(|place| {
            let number =
                number(place.segment).filter(|number| segments[*number].lent().is_some())?;
            Some((number, place.offset..place.offset + place.run))
        });
        let runs = runs.collect();
        Locked { segments, runs }
    }
}

impl Locked<'_> {
    fn bytes(&self) -> u64 {
        self.runs.iter().map(|(_, range)| range.len() as u64).sum()
    }
}

impl Held<'_> {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// The bytes, in order.
    pub fn pieces(&self) -> Vec<&[u8]> {
        let Locked { segments, runs } = &self.0;
        let run =
            |(number, range): &(usize, Range<usize>)| segments[*number].lent()?.get(range.clone());
        runs.iter().filter_map(run).collect()
    }
}

impl Room<'_> {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.locked.bytes()
    }

    /// Where they go, in order.
    pub fn pieces(&mut self) -> Vec<&mut [u8]> {
        let Locked { segments, runs } = &mut self.locked;
        let slots = |segment| -> Vec<Option<&mut [u8]>> {
            let memory = Segment::lent_mut(segment).unwrap_or_default();
            memory.chunks_mut(SLOT).map(Some).collect()
        };
        let mut slots: Vec<_> = segments.iter_mut().map(|segment| slots(&mut **segment)).collect();
        let run = |(number, range): &(usize, Range<usize>)| {
            let (slot, offset) = (range.start / SLOT, range.start % SLOT);
            slots[*number].get_mut(slot)?.take()?.get_mut(offset..offset + range.len())
        };
        runs.iter().filter_map(run).collect()
    }

    /// They are there.
    pub fn land(self) {
        let Self { arrival, range, locked } = self;
        drop(locked);
        arrival.landed(range);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::segment::lend, *};

    /// Two groups of segments, and a rest that is never lent.
    const LEN: u64 = (32 << 20) + 1000;

    #[test]
    fn what_lies_in_lent_memory_is_held_and_the_rest_is_not() {
        lend(vec![0; 64 << 20].leak());
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 37 % 251) as u8).collect();
        let arrival = Arrival::new(LEN, vec![]);
        assert!(arrival.room(LEN - 10..LEN).unwrap().is_none(), "the rest is on the heap");
        for (start, end) in [(0, 5_000_000), (5_000_000, 17_000_001), (17_000_001, LEN)] {
            let mut room = arrival.room(start..end).unwrap().expect("lent");
            let until = start + room.bytes();
            assert_eq!(until, end.min(32 << 20));
            let mut from = &bytes[start as usize..];
            for piece in room.pieces() {
                let (now, later) = from.split_at(piece.len());
                piece.copy_from_slice(now);
                from = later;
            }
            assert!(!arrival.has(start..start + 1), "not yet");
            room.land();
            assert!(arrival.has(start..until));
            assert!(arrival.room(start..until).unwrap().is_none(), "each byte comes once");
        }
        arrival.write(32 << 20, &bytes[32 << 20..]).unwrap();
        assert!(arrival.is_complete());
        let held = arrival.hold(3..LEN).expect("lent");
        assert_eq!(held.bytes(), (32 << 20) - 3);
        assert_eq!(held.pieces().concat(), bytes[3..32 << 20]);
        drop(held);
        let mut back = vec![0; LEN as usize];
        arrival.read(0, &mut back);
        assert_eq!(back, bytes);
        assert!(arrival.hold(LEN - 1..LEN).is_none());
    }

    #[test]
    fn a_payload_that_was_given_up_has_no_room() {
        let arrival = Arrival::new(LEN, vec![]);
        arrival.fail(crate::error::Error::Cancelled);
        assert!(arrival.room(0..LEN).is_err());
    }
}
