//! Plans the bucket accumulation of a shape: its launches and the layout of its workspace.

use super::{
    blocks::{ShareBlocks, TreeBlocks},
    whole_buckets::WholeBucketPlan,
};
use crate::{curve::Group, device::DeviceLimits};

/// As in `kernels/msm/levels.cuh`.
const LEVELS_MAX: u32 = 16;
/// Buckets of a tile in `kernels/msm/levels.cu`.
const TILE_BUCKETS: u32 = 2048;
const LANES: u32 = 32;
/// Additions per batch inversion: inversions cost more than 4 % below 128 and less than 2 % from
/// 256 on (H200).
const BATCH_INVERSION_ADDITIONS: std::ops::RangeInclusive<u32> = 32..=256;
/// Alignment of regions.
const ALIGN: u64 = 256;
/// Bytes of the kernels' `struct Levels`.
const LEVELS_BYTES: u64 = 4 * (LEVELS_MAX as u64 + 6);
/// Members of all teams on an H200, four lanes each; in proportion on devices with other numbers of
/// multiprocessors.
const TEAM_MEMBERS: u32 = 1 << 14;
const TEAM_MAX: u32 = 32;
/// From this many buckets on most teams would be idle after the levels.
const TEAM_BUCKETS: u32 = 1 << 17;
/// The most elements of the largest bucket per member of its team: a few large buckets finish with
/// the others, but one that holds everything does not.
pub(super) const TEAM_ELEMENTS: u32 = 20;

/// The most references for which teams sum whole buckets. At 2^13 scalars this is 6 % faster than
/// load-balanced accumulation, at 2^14 21 % slower (H200).
pub const WHOLE_BUCKET_REFERENCES_MAX: u32 = 3 << 16;

/// The input of a bucket accumulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccumulateShape {
    /// The curve group.
    pub group: Group,
    /// Launch bound on references, below 2^31: only the device knows their number.
    pub references_max: u32,
    /// Buckets of all sets and vectors; at least 1.
    pub buckets: u32,
    /// Whether sums are added to the contents of the buckets.
    pub accumulate: bool,
    /// Whether sums stay in XYZZ coordinates, which saves an inversion: for few buckets, if nothing
    /// is added onto them later.
    pub xyzz: bool,
    /// Thresholds between methods.
    pub balance: AccumulateTuning,
}

/// Thresholds between tree, load-balanced accumulation and teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccumulateTuning {
    /// Levels of the tree with fewer additions are not run. 1 uses the tree alone, `u32::MAX`
    /// load-balanced accumulation alone.
    pub level_additions_min: u32,
    /// The fewest references of a thread's share.
    pub share_references_min: u32,
    /// The most references for which teams of lanes sum whole buckets, if sums stay in XYZZ.
    pub whole_bucket_references_max: u32,
    /// Teams replace shares if levels leave no more elements per bucket and buckets are few.
    pub team_elements_max: u32,
}

impl AccumulateTuning {
    /// Tuned on an H200 for at most `digits` references. A level costs an inversion, 35 us, so it
    /// pays only with many additions. G1: 1 M references take 0.60 ms with shares alone and 0.63
    /// with levels from 2^18 on, 4 M take 1.80 and 1.57; a low threshold that leaves nothing to
    /// shares saves 3 % at 13.2 M references of sliding windows. G2: 1 M take 1.55 with shares
    /// alone and 1.35 with levels from 2^16 on, 4 M are 3 % faster from 2^18 on, 13.6 M 3 % from
    /// 2^16 on.
    pub const fn of(group: Group, digits: u32) -> Self {
        let level_min = match (group, digits) {
            (Group::G1, 0..0x20_0000) => u32::MAX,
            (Group::G1, 0x20_0000..0x80_0000) => 1 << 18,
            (Group::G1, _) => 1 << 14,
            (Group::G2, 0x20_0000..0x80_0000) => 1 << 18,
            (Group::G2, _) => 1 << 16,
        };
        // With teams after levels, an MSM of 1 M references in G2 takes 1.80 instead of 1.61 ms.
        let team_left = match group {
            Group::G1 => 4,
            Group::G2 => 0,
        };
        Self {
            level_additions_min: level_min,
            share_references_min: 4,
            whole_bucket_references_max: WHOLE_BUCKET_REFERENCES_MAX,
            team_elements_max: team_left,
        }
    }
}

/// Offsets in bytes from the start of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccumulateLayout {
    /// Levels that are launched; the device skips those that do not pay.
    pub level_count: u32,
    /// Tiles of buckets.
    pub tiles: u32,
    /// Words per row of the tree: one per bucket, and one more.
    pub width: u32,
    /// Members of a bucket's team, if teams follow the levels.
    pub team: Option<u32>,
    /// The most additions per batch inversion.
    pub batch_additions: u32,
    /// Units of each round of merging: first the shares, then one per 32 units, at last 1.
    pub units: Vec<u32>,
    pub levels: u64,
    pub totals: u64,
    pub rows: u64,
    pub list: u64,
    pub scratch: u64,
    pub heads: u64,
    pub tails: u64,
    pub unit_states: u64,
    pub sums: u64,
    pub bytes: u64,
}

impl AccumulateShape {
    /// Bytes of workspace on a device with these limits.
    pub fn bytes(&self, limits: &DeviceLimits) -> u64 {
        match WholeBucketPlan::of(self, limits) {
            Some(cutting) => cutting.bytes(self.group),
            None => AccumulateLayout::of(self, limits).bytes,
        }
    }

    /// Bytes of a bucket's sum.
    pub fn sum_bytes(&self) -> usize {
        self.group.affine_bytes() * if self.xyzz { 2 } else { 1 }
    }

    /// Upper bound on the elements of all buckets.
    pub(super) fn elements(&self) -> u64 {
        let held = if self.accumulate { self.references_max.min(self.buckets) } else { 0 };
        u64::from(self.references_max) + u64::from(held)
    }

    /// Levels with at least `level_min` additions if all elements were in one bucket. 0 on devices
    /// without the tree, where shares sum everything.
    fn level_count(&self, limits: &DeviceLimits) -> u32 {
        if TreeBlocks::of(self.group, limits).is_none() {
            return 0;
        }
        let least = u64::from(self.balance.level_additions_min.max(1));
        (1..=LEVELS_MAX).take_while(|level| self.elements() >> level >= least).count() as u32
    }

    /// Members of a team if `left` elements are left, a power of two: one member per two elements
    /// of a bucket, if the device has enough lanes.
    pub(super) fn team_size(&self, left: u64, limits: &DeviceLimits) -> u32 {
        let pairs = (left / (2 * u64::from(self.buckets))) as u32;
        let members = TEAM_MEMBERS * limits.multiprocessors / DeviceLimits::H200.multiprocessors;
        let most = pairs.min(members / self.buckets).clamp(1, TEAM_MAX);
        1 << most.ilog2()
    }

    /// Members of the teams that sum the rest after the levels.
    fn team_after_levels(&self, limits: &DeviceLimits) -> Option<u32> {
        let levels = self.level_count(limits);
        let left = self.elements() >> levels;
        let most_left = u64::from(self.balance.team_elements_max) * u64::from(self.buckets);
        let after = levels > 0 && self.buckets <= TEAM_BUCKETS && left <= most_left;
        after.then(|| self.team_size(left, limits))
    }

    /// Units of every round, until one warp holds all.
    fn units_per_round(&self, shares_max: u32) -> Vec<u32> {
        let shares = self.elements().div_ceil(u64::from(self.balance.share_references_min.max(1)));
        let mut units = vec![shares.clamp(1, u64::from(shares_max)) as u32];
        while let Some(&last @ 2..) = units.last() {
            units.push(last.div_ceil(LANES));
        }
        units
    }
}

impl AccumulateLayout {
    pub fn of(shape: &AccumulateShape, limits: &DeviceLimits) -> Self {
        let level_count = shape.level_count(limits);
        let units = shape.units_per_round(ShareBlocks::of(shape.group).shares_max(limits));
        let batch = TreeBlocks::of(shape.group, limits).filter(|_| level_count > 0);
        let TreeBlocks { blocks, threads, scratch_coordinates: kept } = batch.unwrap_or_default();
        let tiles = shape.buckets / TILE_BUCKETS + 1;
        let width = (shape.buckets + 1).next_multiple_of(4);
        let rows = shape.elements().div_ceil(2).div_ceil(u64::from(LANES));
        let warps = u64::from(blocks * (threads / LANES));
        let even =
            rows.div_ceil(warps.max(1)).min(u64::from(*BATCH_INVERSION_ADDITIONS.end())) as u32;
        let chain = even.max(*BATCH_INVERSION_ADDITIONS.start());
        let coordinate = shape.group.coordinate_bytes() as u64;
        let unit_count: u64 = units.iter().map(|&count| u64::from(count)).sum();
        let mut end = 0_u64;
        let mut region = |bytes: u64| {
            let start = end;
            end = (start + bytes).next_multiple_of(ALIGN);
            start
        };
        let levels = region(LEVELS_BYTES);
        let totals = region(4 * u64::from(2 * level_count + 2) * u64::from(tiles));
        let rows = region(4 * u64::from(level_count + 1) * u64::from(width));
        let list = region(8 * shape.elements());
        let threads = u64::from(blocks) * u64::from(threads);
        let scratch = region(u64::from(kept * chain) * coordinate * threads);
        let (heads, tails) =
            (region(4 * coordinate * unit_count), region(4 * coordinate * unit_count));
        let unit_states = region(8 * unit_count);
        // One point more, so that the first sum can start at a reference's index.
        let sums = region(2 * coordinate * (shape.elements().max(1) + 1));
        Self {
            level_count,
            tiles,
            width,
            team: shape.team_after_levels(limits),
            batch_additions: chain,
            units,
            levels,
            totals,
            rows,
            list,
            scratch,
            heads,
            tails,
            unit_states,
            sums,
            bytes: end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::blocks::THREE_ROUND_SHARES, *};

    const H200: DeviceLimits = DeviceLimits::H200;
    /// The shared memory of an RTX 4090 or an L4.
    const SMALL: DeviceLimits =
        DeviceLimits { block_shared_bytes: 99 << 10, shared_bytes: 100 << 10, ..H200 };

    fn shape(digits: u32, level_min: u32) -> AccumulateShape {
        let balance = AccumulateTuning {
            level_additions_min: level_min,
            share_references_min: 4,
            whole_bucket_references_max: 1000,
            team_elements_max: 0,
        };
        AccumulateShape {
            group: Group::G1,
            references_max: digits,
            buckets: 1 << 10,
            accumulate: false,
            xyzz: false,
            balance,
        }
    }

    #[test]
    fn levels_stop_at_the_fewest_additions() {
        for (digits, level_min, expected) in [
            (0, 1, 0),
            (1, 1, 0),
            (2, 1, 1),
            (7, 1, 2),
            (8, 1, 3),
            (u32::MAX >> 1, 1, LEVELS_MAX),
            (u32::MAX >> 1, u32::MAX, 0),
            (201 << 20, 1 << 18, 9),
        ] {
            assert_eq!(
                shape(digits, level_min).level_count(&H200),
                expected,
                "{digits} {level_min}"
            );
        }
    }

    #[test]
    fn devices_with_little_shared_memory_use_shares_only() {
        for group in [Group::G1, Group::G2] {
            let shape = AccumulateShape { group, ..shape(201 << 20, 1 << 18) };
            assert_eq!((shape.level_count(&SMALL), shape.team_after_levels(&SMALL)), (0, None));
            let scratch = |limits| {
                let layout = AccumulateLayout::of(&shape, &limits);
                layout.heads - layout.scratch
            };
            assert!(scratch(SMALL) == 0 && scratch(H200) > 0);
        }
    }

    #[test]
    fn shares_fill_one_wave() {
        let shares = |group, limits| ShareBlocks::of(group).shares_max(&limits);
        assert_eq!((shares(Group::G1, H200), shares(Group::G2, H200)), (1 << 15, 1 << 15));
        assert_eq!(shares(Group::G1, SMALL), 1 << 15);
        // Shared memory holds two blocks of 64 threads.
        assert_eq!(shares(Group::G2, SMALL), 132 * 128);
        assert_eq!(shares(Group::G1, DeviceLimits { multiprocessors: 108, ..H200 }), 108 * 256);
        assert_eq!(shares(Group::G1, DeviceLimits { multiprocessors: 170, ..H200 }), 170 * 256);
    }

    #[test]
    fn rounds_end_with_one_unit() {
        for (digits, expected) in
            [(0, vec![1]), (4, vec![1]), (5, vec![2, 1]), (4 * 33, vec![33, 2, 1])]
        {
            assert_eq!(shape(digits, 1).units_per_round(THREE_ROUND_SHARES), expected);
        }
        assert_eq!(
            shape(1 << 30, 1).units_per_round(THREE_ROUND_SHARES),
            [1 << 15, 1 << 10, 32, 1]
        );
    }

    #[test]
    fn team_size_follows_elements_and_lanes() {
        let team = |digits, buckets| {
            let balance = AccumulateTuning {
                level_additions_min: u32::MAX,
                share_references_min: 1,
                whole_bucket_references_max: 1 << 17,
                team_elements_max: 0,
            };
            let shape = AccumulateShape {
                group: Group::G1,
                references_max: digits,
                buckets,
                accumulate: false,
                xyzz: true,
                balance,
            };
            shape.team_size(digits.into(), &H200)
        };
        for (digits, buckets, expected) in [
            (1, 1, 1),
            (1 << 17, 1, 32),
            (22 << 10, 1 << 11, 4),
            (20 << 12, 1 << 12, 4),
            (1 << 17, 1 << 20, 1),
        ] {
            assert_eq!(team(digits, buckets), expected, "{digits} {buckets}");
        }
    }

    #[test]
    fn teams_sum_what_levels_leave_of_few_buckets() {
        let team = |digits, lg_buckets, level_min, team_left| {
            let balance = AccumulateTuning {
                level_additions_min: level_min,
                share_references_min: 1,
                whole_bucket_references_max: 0,
                team_elements_max: team_left,
            };
            let shape = shape(digits, level_min);
            AccumulateShape { balance, buckets: 1_u32 << lg_buckets, ..shape }
                .team_after_levels(&H200)
        };
        for (digits, lg_buckets, level_min, team_left, expected) in [
            (15 << 18, 16, 1 << 17, 6, Some(1)), // four levels leave 3.75
            (15 << 18, 16, 1 << 18, 6, None),    // three levels leave 7.5
            (15 << 18, 16, 1 << 17, 0, None),
            (16 << 16, 15, 1 << 17, 6, Some(1)),
            (16 << 16, 15, u32::MAX, 6, None),
            (13 << 20, 19, 1 << 17, 6, None),
            (16 << 16, 10, 1 << 17, 200, Some(16)),
        ] {
            assert_eq!(team(digits, lg_buckets, level_min, team_left), expected, "{digits}");
        }
    }

    #[test]
    fn regions_follow_each_other() {
        for (digits, limits) in
            [(0, H200), (1, H200), (1000, H200), (12 << 24, H200), (12 << 24, SMALL)]
        {
            let AccumulateLayout {
                levels,
                totals,
                rows,
                list,
                scratch,
                heads,
                tails,
                unit_states,
                sums,
                bytes,
                ..
            } = AccumulateLayout::of(&shape(digits, 1 << 18), &limits);
            let starts =
                [levels, totals, rows, list, scratch, heads, tails, unit_states, sums, bytes];
            assert!(starts.is_sorted() && starts.iter().all(|start| start % ALIGN == 0));
            assert!(bytes - sums >= 96 * (u64::from(digits) + 1));
        }
    }
}
