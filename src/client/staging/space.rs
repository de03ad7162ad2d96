//! The free places of a region.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// Places begin at multiples of a page, and consist of whole pages.
pub(super) const PAGE: usize = 4096;

/// A place that no payload has.
struct FreePlace {
    range: Range<usize>,
    /// When the last payload left it; `None` if it has been wiped since.
    left: Option<Instant>,
}

/// The places of a region, by bytes.
pub(super) struct RegionSpace {
    /// Sorted, without overlaps. Neighbours may touch.
    free: Vec<FreePlace>,
    size: usize,
    /// Bytes that are never returned.
    lost: usize,
    pub last_use: Instant,
}

impl RegionSpace {
    /// `size` wiped bytes.
    pub fn new(size: usize, now: Instant) -> Self {
        Self { free: vec![FreePlace { range: 0..size, left: None }], size, lost: 0, last_use: now }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes the first `bytes` bytes that are free, rounded up to pages.
    pub fn take(&mut self, bytes: usize) -> Option<Range<usize>> {
        let bytes = bytes.next_multiple_of(PAGE);
        let mut first = 0;
        for last in 0..self.free.len() {
            if last > 0 && self.free[last - 1].range.end < self.free[last].range.start {
                first = last;
            }
            let start = self.free[first].range.start;
            if self.free[last].range.end - start >= bytes {
                self.free[last].range.start = start + bytes;
                let is_used = self.free[last].range.is_empty();
                self.free.drain(first..last + usize::from(is_used));
                return Some(start..start + bytes);
            }
        }
        None
    }

    /// Returns what [`Self::take`] gave.
    pub fn give_back(&mut self, range: Range<usize>, now: Instant) {
        self.last_use = now;
        self.insert(FreePlace { range, left: Some(now) });
    }

    /// Gives up what [`Self::take`] gave: the server may still use it.
    pub fn lose(&mut self, range: Range<usize>) {
        self.lost += range.len();
    }

    pub fn has_lost_places(&self) -> bool {
        self.lost > 0
    }

    /// Takes the places that payloads left at least `age` ago.
    pub fn take_old(&mut self, age: Duration, now: Instant) -> Vec<Range<usize>> {
        let is_old = |place: &mut FreePlace| {
            place.left.is_some_and(|left| now.saturating_duration_since(left) >= age)
        };
        self.free.extract_if(.., is_old).map(|place| place.range).collect()
    }

    /// Returns what [`Self::take_old`] gave, wiped.
    pub fn give_back_wiped(&mut self, range: Range<usize>) {
        self.insert(FreePlace { range, left: None });
        self.free.dedup_by(|next, place| {
            let joins =
                place.left.is_none() && next.left.is_none() && place.range.end == next.range.start;
            if joins {
                place.range.end = next.range.end;
            }
            joins
        });
    }

    /// Whether no payload has a place, apart from lost ones.
    pub fn is_unused(&self) -> bool {
        let free: usize = self.free.iter().map(|place| place.range.len()).sum();
        free + self.lost == self.size
    }

    fn insert(&mut self, place: FreePlace) {
        let index = self.free.partition_point(|other| other.range.start < place.range.start);
        self.free.insert(index, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(pages: usize) -> RegionSpace {
        RegionSpace::new(pages * PAGE, Instant::now())
    }

    fn pages(range: Range<usize>) -> Range<usize> {
        range.start * PAGE..range.end * PAGE
    }

    #[test]
    fn takes_the_first_free_pages_that_are_neighbours() {
        let mut space = space(8);
        let now = Instant::now();
        let taken = [1, PAGE + 1, 3 * PAGE, 1].map(|bytes| space.take(bytes).unwrap());
        assert_eq!(taken, [0..1, 1..3, 3..6, 6..7].map(pages));
        assert_eq!(space.take(PAGE + 1), None);
        space.give_back(pages(3..6), now);
        space.give_back(pages(1..3), now);
        assert!(!space.is_unused());
        assert_eq!(space.take(6 * PAGE), None);
        assert_eq!(space.take(4 * PAGE), Some(pages(1..5)));
        assert_eq!(space.take(PAGE), Some(pages(5..6)));
        assert_eq!(space.take(PAGE), Some(pages(7..8)));
        assert_eq!(space.take(1), None);
    }

    #[test]
    fn only_places_that_were_left_long_ago_are_wiped() {
        let mut space = space(4);
        let (begun, age) = (Instant::now(), Duration::from_secs(1));
        let taken: Vec<_> = (0..3).map(|_| space.take(PAGE).unwrap()).collect();
        for (second, range) in taken.into_iter().enumerate() {
            space.give_back(range, begun + second as u32 * age);
        }
        assert!(space.is_unused());
        let old = space.take_old(age, begun + 2 * age);
        assert_eq!(old, [0..1, 1..2].map(pages));
        assert_eq!(space.take(1), Some(pages(2..3)), "what is being wiped is not free");
        old.into_iter().for_each(|range| space.give_back_wiped(range));
        assert!(space.take_old(Duration::ZERO, begun + 9 * age).is_empty());
        space.give_back(pages(2..3), begun);
        assert_eq!(space.take(4 * PAGE), Some(pages(0..4)));
    }

    #[test]
    fn a_space_with_a_lost_place_is_unused_when_the_others_are_returned() {
        let mut space = space(3);
        let now = Instant::now();
        let (lost, kept) = (space.take(PAGE).unwrap(), space.take(PAGE).unwrap());
        space.lose(lost);
        assert!(space.has_lost_places() && !space.is_unused());
        space.give_back(kept, now);
        assert!(space.is_unused());
        assert_eq!(space.take(2 * PAGE), Some(pages(1..3)), "the lost place is not free");
    }
}
