//! A set of disjoint ranges: the received ranges of a payload, or the free ranges of memory.

use std::{collections::BTreeMap, ops::Range};

/// Disjoint, non-adjacent ranges of `u64`, ordered.
#[derive(Debug, Default, Clone)]
pub struct RangeSet {
    /// start -> end
    ranges: BTreeMap<u64, u64>,
    covered: u64,
}

impl RangeSet {
    pub fn covered(&self) -> u64 {
        self.covered
    }

    pub fn fragments(&self) -> usize {
        self.ranges.len()
    }

    pub fn contains(&self, range: &Range<u64>) -> bool {
        let last = self.ranges.range(..=range.start).next_back();
        range.is_empty() || last.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Adds `range` and returns the parts of it that were not covered before, in order.
    pub fn insert(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let fresh = self.gaps(&range);
        if range.is_empty() {
            return fresh;
        }
        let Range { mut start, mut end } = range;
        // Merge all ranges that overlap or touch the new range, the last one first.
        while let Some((&last_start, &last_end)) = self.ranges.range(..=end).next_back()
            && last_end >= start
        {
            self.ranges.remove(&last_start);
            (start, end) = (start.min(last_start), end.max(last_end));
        }
        self.ranges.insert(start, end);
        self.covered += fresh.iter().map(|gap| gap.end - gap.start).sum::<u64>();
        fresh
    }

    /// Removes all of `range`.
    pub fn remove(&mut self, range: Range<u64>) {
        for part in self.parts(&range) {
            let Some((&start, &end)) = self.ranges.range(..=part.start).next_back() else { return };
            self.ranges.remove(&start);
            if start < part.start {
                self.ranges.insert(start, part.start);
            }
            if part.end < end {
                self.ranges.insert(part.end, end);
            }
            self.covered -= part.end - part.start;
        }
    }

    /// Removes and returns the lowest `len` consecutive numbers.
    pub fn take_first(&mut self, len: u64) -> Option<Range<u64>> {
        let (&start, _) = self.ranges.iter().find(|(start, end)| *end - *start >= len)?;
        self.remove(start..start + len);
        Some(start..start + len)
    }

    /// Removes and returns the highest range, of which at most the last `len_max` numbers.
    pub fn take_last(&mut self, len_max: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.last_key_value()?;
        let taken = start.max(end.saturating_sub(len_max))..end;
        self.remove(taken.clone());
        Some(taken)
    }

    /// The covered parts of `within`, in order.
    pub fn parts(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let from = self.ranges.range(..=within.start).next_back().map_or(within.start, |(s, _)| *s);
        let ranges = self.ranges.range(from..).take_while(|(start, _)| **start < within.end);
        let parts = ranges.map(|(start, end)| within.start.max(*start)..within.end.min(*end));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// The parts of `within` that are not covered, in order.
    pub fn gaps(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut uncovered = within.start;
        let first =
            self.ranges.range(..=within.start).next_back().map_or(within.start, |(s, _)| *s);
        for (&start, &end) in self.ranges.range(first..) {
            if start >= within.end {
                break;
            }
            if start > uncovered {
                gaps.push(uncovered..start);
            }
            uncovered = uncovered.max(end);
        }
        if uncovered < within.end {
            gaps.push(uncovered..within.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_bitmap_on_random_ranges() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut ranges = RangeSet::default();
            let mut bitmap = [false; 64];
            for _ in 0..20 {
                let start = random(64);
                let end = start + random(65 - start);
                let fresh: u64 = ranges.insert(start..end).iter().map(|g| g.end - g.start).sum();
                let mut expected = 0;
                for bit in &mut bitmap[start as usize..end as usize] {
                    expected += u64::from(!*bit);
                    *bit = true;
                }
                assert_eq!(fresh, expected);
                assert_eq!(ranges.covered(), bitmap.iter().filter(|bit| **bit).count() as u64);
                let missing: u64 = ranges.gaps(&(0..64)).iter().map(|g| g.end - g.start).sum();
                assert_eq!(missing, 64 - ranges.covered());
                let parts = ranges.parts(&(0..64));
                assert_eq!(parts.len(), ranges.fragments());
                assert_eq!(parts.iter().map(|p| p.end - p.start).sum::<u64>(), ranges.covered());
                let all = bitmap[start as usize..end as usize].iter().all(|bit| *bit);
                assert_eq!(ranges.contains(&(start..end)), all);
                let runs = bitmap.iter().zip([false].iter().chain(&bitmap));
                assert_eq!(ranges.fragments(), runs.filter(|(now, old)| **now && !**old).count());
                if random(3) == 0 {
                    let start = random(64);
                    let removed = start..start + random(65 - start);
                    ranges.remove(removed.clone());
                    assert!(ranges.parts(&removed).is_empty());
                    bitmap[removed.start as usize..removed.end as usize].fill(false);
                    assert_eq!(ranges.covered(), bitmap.iter().filter(|bit| **bit).count() as u64);
                }
            }
        }
    }

    #[test]
    fn the_lowest_range_that_fits_and_the_highest_are_taken() {
        let mut ranges = RangeSet::default();
        for range in [0..3, 5..15, 20..40] {
            ranges.insert(range);
        }
        assert_eq!(ranges.take_first(6), Some(5..11));
        assert_eq!(ranges.take_first(2), Some(0..2));
        assert_eq!(ranges.take_first(21), None);
        assert_eq!(ranges.take_last(8), Some(32..40));
        assert_eq!(ranges.take_last(100), Some(20..32));
        assert_eq!(ranges.parts(&(0..100)), [2..3, 11..15]);
        assert_eq!(ranges.covered(), 5);
    }
}
