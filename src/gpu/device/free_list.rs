//! Free pieces of a range: best fit, adjacent pieces merge. Pure bookkeeping.

use std::{collections::BTreeMap, ops::Range};

/// Free pieces by offset. A piece carries notes, which the parts cut out of it inherit.
pub(super) struct FreeList<N>(BTreeMap<u64, FreePiece<N>>);

struct FreePiece<N> {
    bytes: u64,
    notes: Vec<N>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenPiece<N> {
    pub range: Range<u64>,
    pub notes: Vec<N>,
}

impl<N: Clone> FreeList<N> {
    /// A list in which all of `0..bytes` is free.
    pub fn new(bytes: u64) -> Self {
        Self(BTreeMap::from([(0, FreePiece { bytes, notes: Vec::new() })]))
    }

    /// Takes `bytes` bytes, not 0, from the smallest piece that is large enough.
    pub fn take(&mut self, bytes: u64) -> Option<TakenPiece<N>> {
        let large_enough = self.0.iter().filter(|(_, piece)| piece.bytes >= bytes);
        let (&offset, _) = large_enough.min_by_key(|(offset, piece)| (piece.bytes, **offset))?;
        let FreePiece { bytes: found, notes } = self.0.remove(&offset)?;
        if found > bytes {
            let rest = FreePiece { bytes: found - bytes, notes: notes.clone() };
            self.0.insert(offset + bytes, rest);
        }
        Some(TakenPiece { range: offset..offset + bytes, notes })
    }

    /// Returns a range. Notes of merged neighbours are dropped if `keep` is false.
    pub fn release(&mut self, range: Range<u64>, mut notes: Vec<N>, keep: impl Fn(&N) -> bool) {
        let Range { mut start, mut end } = range;
        if let Some(next) = self.0.remove(&end) {
            end += next.bytes;
            notes.extend(next.notes.into_iter().filter(&keep));
        }
        let previous = self.0.range(..start).next_back();
        let previous = previous.filter(|(offset, piece)| *offset + piece.bytes == start);
        if let Some(offset) = previous.map(|(offset, _)| *offset) {
            start = offset;
            let previous = self.0.remove(&offset).into_iter().flat_map(|piece| piece.notes);
            notes.extend(previous.filter(&keep));
        }
        self.0.insert(start, FreePiece { bytes: end - start, notes });
    }

    /// The notes of all pieces.
    pub fn notes(&self) -> Vec<N> {
        self.0.values().flat_map(|piece| &piece.notes).cloned().collect()
    }

    pub fn largest(&self) -> u64 {
        self.0.values().map(|piece| piece.bytes).max().unwrap_or(0)
    }

    /// Bytes of the largest piece if the ranges `others` were returned.
    pub fn largest_after_release(&self, others: impl IntoIterator<Item = Range<u64>>) -> u64 {
        let own = self.0.iter().map(|(&offset, piece)| offset..offset + piece.bytes);
        let mut all: Vec<_> = own.chain(others).collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut largest = 0;
        let mut merged = 0..0;
        for range in all {
            let start = if range.start == merged.end { merged.start } else { range.start };
            merged = start..range.end;
            largest = largest.max(merged.end - merged.start);
        }
        largest
    }

    pub fn total(&self) -> u64 {
        self.0.values().map(|piece| piece.bytes).sum()
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
            let mut taken: Vec<Range<u64>> = Vec::new();
            for (take, bytes, which) in steps {
                if take {
                    let runs = cells.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert_eq!(list.largest(), runs as u64);
                    let got = list.take(bytes);
                    prop_assert_eq!(got.is_some(), runs as u64 >= bytes);
                    let Some(TakenPiece { range, .. }) = got else { continue };
                    for cell in &mut cells[range.start as usize..range.end as usize] {
                        prop_assert!(!*cell, "taken twice");
                        *cell = true;
                    }
                    taken.push(range);
                } else if !taken.is_empty() {
                    prop_assert_eq!(list.largest_after_release(taken.iter().cloned()), WHOLE);
                    let range = taken.swap_remove(which.index(taken.len()));
                    let foreseen = list.largest_after_release(std::iter::once(range.clone()));
                    cells[range.start as usize..range.end as usize].fill(false);
                    list.release(range.clone(), vec![range.start], |_| true);
                    prop_assert_eq!(list.largest(), foreseen);
                }
            }
            for range in taken {
                list.release(range, vec![], |_| false);
            }
            prop_assert_eq!((list.largest(), list.total()), (WHOLE, WHOLE));
        }
    }

    #[test]
    fn notes_follow_the_bytes() {
        let mut list = FreeList::new(100);
        assert_eq!(list.take(60), Some(TakenPiece { range: 0..60, notes: vec![] }));
        let second = list.take(40).unwrap().range;
        list.release(0..60, vec!["first"], |_| true);
        list.release(second, vec!["second"], |_| true);
        let TakenPiece { range: part, mut notes } = list.take(10).unwrap();
        notes.sort_unstable();
        assert_eq!((part.clone(), notes), (0..10, vec!["first", "second"]));
        list.release(part, vec!["third"], |note| *note == "first");
        assert_eq!(list.take(100).unwrap().notes, ["third", "first"]);
    }
}
