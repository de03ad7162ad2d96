//! Free pieces of a range: best fit, adjacent pieces merge. Pure bookkeeping.

use std::collections::BTreeMap;

/// Free pieces by offset. A piece carries notes, which the parts cut out of it inherit.
pub(super) struct FreeList<N> {
    pieces: BTreeMap<u64, (u64, Vec<N>)>,
}

impl<N: Clone> FreeList<N> {
    /// A list in which all of `0..bytes` is free.
    pub fn new(bytes: u64) -> Self {
        Self { pieces: BTreeMap::from([(0, (bytes, Vec::new()))]) }
    }

    /// Takes `bytes` bytes, not 0, from the smallest piece that is large enough. Returns their
    /// offset and the piece's notes.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, Vec<N>)> {
        let fits = self.pieces.iter().filter(|(_, (held, _))| *held >= bytes);
        let (&at, _) = fits.min_by_key(|(at, (held, _))| (*held, **at))?;
        let (held, notes) = self.pieces.remove(&at)?;
        if held > bytes {
            self.pieces.insert(at + bytes, (held - bytes, notes.clone()));
        }
        Some((at, notes))
    }

    /// Returns `bytes` bytes at `at`. Notes of merged neighbours are dropped if `keep` is false.
    pub fn release(&mut self, at: u64, bytes: u64, notes: Vec<N>, keep: impl Fn(&N) -> bool) {
        let (mut start, mut held, mut notes) = (at, bytes, notes);
        if let Some(after) = self.pieces.remove(&(at + bytes)) {
            held += after.0;
            notes.extend(after.1.into_iter().filter(&keep));
        }
        let before = self.pieces.range(..at).next_back().map(|(at, piece)| (*at, piece.0));
        if let Some((before, length)) = before.filter(|(before, length)| before + length == at) {
            let joined = self.pieces.remove(&before).into_iter().flat_map(|(_, notes)| notes);
            notes.extend(joined.filter(&keep));
            (start, held) = (before, held + length);
        }
        self.pieces.insert(start, (held, notes));
    }

    /// Bytes of the largest piece.
    pub fn largest(&self) -> u64 {
        self.pieces.values().map(|(held, _)| *held).max().unwrap_or(0)
    }

    /// Bytes of the largest piece if the pieces `more`, as (offset, bytes), were returned.
    pub fn largest_after_release(&self, more: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let own = self.pieces.iter().map(|(at, (held, _))| (*at, *held));
        let mut all: Vec<_> = own.chain(more).collect();
        all.sort_unstable();
        let (mut largest, mut start, mut end) = (0, 0, 0);
        for (at, held) in all {
            start = if at == end { start } else { at };
            end = at + held;
            largest = largest.max(end - start);
        }
        largest
    }

    /// Bytes of all pieces.
    pub fn total(&self) -> u64 {
        self.pieces.values().map(|(held, _)| *held).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the list with a map of single cells.
        #[test]
        fn pieces_never_overlap_and_join_again(
            steps in prop::collection::vec(
                (any::<bool>(), 1_u64..40, any::<prop::sample::Index>()), 1..200,
            ),
        ) {
            const WHOLE: u64 = 128;
            let mut list = FreeList::new(WHOLE);
            let mut cells = [false; WHOLE as usize];
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, bytes, which) in steps {
                if take {
                    let runs = cells.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert_eq!(list.largest(), runs as u64);
                    let got = list.take(bytes);
                    prop_assert_eq!(got.is_some(), runs as u64 >= bytes);
                    let Some((at, _)) = got else { continue };
                    for cell in &mut cells[at as usize..(at + bytes) as usize] {
                        prop_assert!(!*cell, "taken twice");
                        *cell = true;
                    }
                    taken.push((at, bytes));
                } else if !taken.is_empty() {
                    prop_assert_eq!(list.largest_after_release(taken.iter().copied()), WHOLE);
                    let (at, bytes) = taken.swap_remove(which.index(taken.len()));
                    let foreseen = list.largest_after_release([(at, bytes)]);
                    cells[at as usize..(at + bytes) as usize].fill(false);
                    list.release(at, bytes, vec![at], |_| true);
                    prop_assert_eq!(list.largest(), foreseen);
                }
            }
            for (at, bytes) in taken {
                list.release(at, bytes, vec![], |_| false);
            }
            prop_assert_eq!((list.largest(), list.total()), (WHOLE, WHOLE));
        }
    }

    #[test]
    fn notes_follow_the_bytes() {
        let mut list = FreeList::new(100);
        let (first, notes) = list.take(60).unwrap();
        assert_eq!((first, notes), (0, vec![]));
        let (second, _) = list.take(40).unwrap();
        list.release(first, 60, vec!["first"], |_| true);
        list.release(second, 40, vec!["second"], |_| true);
        let (at, mut notes) = list.take(10).unwrap();
        notes.sort_unstable();
        assert_eq!((at, notes.as_slice()), (0, &["first", "second"][..]));
        list.release(at, 10, vec!["third"], |note| *note == "first");
        assert_eq!(list.take(100).unwrap().1, ["third", "first"]);
    }
}
