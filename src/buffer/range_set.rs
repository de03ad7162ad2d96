//! A set of disjoint ranges: the received ranges of a payload.

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

    /// The parts of `within` that are not covered, in order.
    pub fn gaps(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut uncovered) = (Vec::new(), within.start);
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
            let (mut ranges, mut bitmap) = (RangeSet::default(), [false; 64]);
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
                let all = bitmap[start as usize..end as usize].iter().all(|bit| *bit);
                assert_eq!(ranges.contains(&(start..end)), all);
                let runs = bitmap.iter().zip([false].iter().chain(&bitmap));
                assert_eq!(ranges.fragments(), runs.filter(|(now, old)| **now && !**old).count());
            }
        }
    }
}
