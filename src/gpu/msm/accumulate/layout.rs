//! Plans the launches of the tree and of load-balanced accumulation, and their workspace.

use std::ops::Range;

use super::{
    blocks::{TreeBlocks, shares_max},
    shape::{AccumulateShape, LANES, LEVELS_MAX},
};
use crate::{device::DeviceLimits, msm::launch::RegionPlanner};

/// Buckets of a tile in `kernels/msm/levels.cu`.
const TILE_BUCKETS: u32 = 2048;
/// The fewest and most additions per batch inversion: with the most, inversions cost less than 2 %
/// (`benches/experiments/msm.md`).
const BATCH_ADDITIONS_MIN: u64 = 32;
const BATCH_ADDITIONS_MAX: u64 = 256;
/// Bytes of the kernels' `struct TreeLevels`.
const LEVELS_BYTES: u64 = 4 * (LEVELS_MAX as u64 + 6);

/// The launches of the tree and of the shares, and the regions of their workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccumulateLayout {
    /// Levels that are launched; the device skips those that do not pay.
    pub level_count: u32,
    pub tiles: u32,
    /// Words per row of the tree: one per bucket, and one more.
    pub width: u32,
    /// Members of a bucket's team, if teams follow the levels.
    pub team: Option<u32>,
    pub batch_additions: u32,
    /// Units of each round of merging: first the shares, then one per 32 units, at last 1.
    pub units: Vec<u32>,
    pub levels: Range<u64>,
    pub totals: Range<u64>,
    pub rows: Range<u64>,
    pub list: Range<u64>,
    pub scratch: Range<u64>,
    pub heads: Range<u64>,
    pub tails: Range<u64>,
    pub unit_states: Range<u64>,
    pub sums: Range<u64>,
}

impl AccumulateLayout {
    pub fn of(shape: &AccumulateShape, limits: &DeviceLimits) -> Self {
        let level_count = shape.level_count(limits);
        let units = shape.units_per_round(shares_max(shape.group, limits));
        let batch = TreeBlocks::of(shape.group, limits).filter(|_| level_count > 0);
        let TreeBlocks { blocks, threads, scratch_coordinates } = batch.unwrap_or_default();
        let tiles = shape.buckets / TILE_BUCKETS + 1;
        let width = (shape.buckets + 1).next_multiple_of(4);
        let pair_rows = shape.elements().div_ceil(2).div_ceil(u64::from(LANES));
        let warps = u64::from(blocks * (threads / LANES));
        let batch_additions = pair_rows.div_ceil(warps.max(1));
        let batch_additions =
            batch_additions.clamp(BATCH_ADDITIONS_MIN, BATCH_ADDITIONS_MAX) as u32;
        let coordinate = shape.group.coordinate_bytes() as u64;
        let unit_count: u64 = units.iter().map(|&count| u64::from(count)).sum();
        let threads = u64::from(blocks) * u64::from(threads);
        let mut regions = RegionPlanner::default();
        // In the order of the fields.
        Self {
            level_count,
            tiles,
            width,
            team: shape.team_after_levels(limits),
            batch_additions,
            units,
            levels: regions.add(LEVELS_BYTES),
            totals: regions.add(4 * u64::from(2 * level_count + 2) * u64::from(tiles)),
            rows: regions.add(4 * u64::from(level_count + 1) * u64::from(width)),
            list: regions.add(8 * shape.elements()),
            scratch: regions
                .add(u64::from(scratch_coordinates * batch_additions) * coordinate * threads),
            heads: regions.add(4 * coordinate * unit_count),
            tails: regions.add(4 * coordinate * unit_count),
            unit_states: regions.add(8 * unit_count),
            // One point more, so that the first sum can start at a reference's index.
            sums: regions.add(2 * coordinate * (shape.elements().max(1) + 1)),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.sums.end
    }
}

#[cfg(test)]
mod tests {
    use super::{super::shape::tests::shape, *};
    use crate::{curve::Group, device::ALIGN};

    const H200: DeviceLimits = DeviceLimits::H200;
    /// The shared memory of an RTX 4090 or an L4.
    const SMALL: DeviceLimits =
        DeviceLimits { block_shared_bytes: 99 << 10, shared_bytes: 100 << 10, ..H200 };

    #[test]
    fn devices_with_little_shared_memory_use_shares_only() {
        for group in [Group::G1, Group::G2] {
            let shape = AccumulateShape { group, ..shape(201 << 20, 1 << 18) };
            assert_eq!((shape.level_count(&SMALL), shape.team_after_levels(&SMALL)), (0, None));
            let scratch = |limits| AccumulateLayout::of(&shape, &limits).scratch;
            assert!(scratch(SMALL).is_empty() && !scratch(H200).is_empty());
        }
    }

    #[test]
    fn shares_fill_one_wave() {
        let shares = |group, limits| shares_max(group, &limits);
        assert_eq!((shares(Group::G1, H200), shares(Group::G2, H200)), (1 << 15, 1 << 15));
        assert_eq!(shares(Group::G1, SMALL), 1 << 15);
        // Shared memory holds two blocks of 64 threads.
        assert_eq!(shares(Group::G2, SMALL), 132 * 128);
        assert_eq!(shares(Group::G1, DeviceLimits { multiprocessors: 108, ..H200 }), 108 * 256);
        assert_eq!(shares(Group::G1, DeviceLimits { multiprocessors: 170, ..H200 }), 170 * 256);
    }

    #[test]
    fn regions_follow_each_other() {
        for (digits, limits) in
            [(0, H200), (1, H200), (1000, H200), (12 << 24, H200), (12 << 24, SMALL)]
        {
            let own = AccumulateLayout::of(&shape(digits, 1 << 18), &limits);
            let (bytes, sums) = (own.bytes(), own.sums.clone());
            let AccumulateLayout { levels, totals, rows, list, scratch, .. } = own;
            let AccumulateLayout { heads, tails, unit_states, .. } = own;
            let regions =
                [levels, totals, rows, list, scratch, heads, tails, unit_states, sums.clone()];
            assert!(regions[0].start == 0 && regions.iter().all(|own| own.start % ALIGN == 0));
            assert!(regions.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(sums.end == bytes && bytes - sums.start >= 96 * (u64::from(digits) + 1));
        }
    }
}
