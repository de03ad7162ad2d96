//! The input of a bucket accumulation, and its tuning.

use super::blocks::TreeBlocks;
use crate::{curve::Group, device::DeviceLimits, msm::launch::PerGroup};

/// As in `kernels/msm/levels.cuh`.
pub(super) const LEVELS_MAX: u32 = 16;
pub(super) const LANES: u32 = 32;
/// Members of all teams on an H200, four lanes each; in proportion on devices with other numbers of
/// multiprocessors. Not tuned.
const TEAM_MEMBERS: u32 = 1 << 14;
const TEAM_MAX: u32 = 32;
/// With more buckets, most teams would be idle after the levels. Figures were not kept.
const TEAM_BUCKETS_MAX: u32 = 1 << 17;

/// The most references for which teams sum whole buckets: 6 % faster at 2^13 scalars, slower from
/// 2^14 on (`benches/experiments/msm.md`).
pub const WHOLE_BUCKET_REFERENCES_MAX: u32 = 3 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccumulateShape {
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
    pub balance: AccumulateTuning,
}

/// Thresholds between tree, load-balanced accumulation and teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccumulateTuning {
    /// Levels of the tree with fewer additions are not run. 1 uses the tree alone, `u32::MAX`
    /// load-balanced accumulation alone.
    pub level_additions_min: u32,
    pub share_references_min: u32,
    /// The most references for which teams of lanes sum whole buckets, if sums stay in XYZZ.
    pub whole_bucket_references_max: u32,
    /// Teams replace shares if levels leave no more elements per bucket and buckets are few.
    pub team_elements_max: u32,
}

impl AccumulateTuning {
    /// Tuned on an H200 for at most `digits` references. A level costs an inversion, so it pays
    /// only with many additions: it saves 13 % at 4 M references in G1
    /// (`benches/experiments/msm.md`).
    pub const fn of(group: Group, digits: u32) -> Self {
        let level_additions_min = match (group, digits) {
            (Group::G1, 0..0x20_0000) => u32::MAX,
            (Group::G1, 0x20_0000..0x80_0000) => 1 << 18,
            (Group::G1, _) => 1 << 14,
            (Group::G2, 0x20_0000..0x80_0000) => 1 << 18,
            (Group::G2, _) => 1 << 16,
        };
        // With teams after levels, MSMs in G2 take 12 % longer (`benches/experiments/msm.md`).
        let team_elements_max = PerGroup { g1: 4, g2: 0 }.of(group);
        Self {
            level_additions_min,
            share_references_min: 4,
            whole_bucket_references_max: WHOLE_BUCKET_REFERENCES_MAX,
            team_elements_max,
        }
    }
}

impl AccumulateShape {
    pub fn sum_bytes(&self) -> usize {
        self.group.affine_bytes() * if self.xyzz { 2 } else { 1 }
    }

    /// Upper bound on the elements of all buckets.
    pub(super) fn elements(&self) -> u64 {
        let held = if self.accumulate { self.references_max.min(self.buckets) } else { 0 };
        u64::from(self.references_max) + u64::from(held)
    }

    /// Levels with at least `level_additions_min` additions if all elements were in one bucket. 0
    /// on devices without the tree, where shares sum everything.
    pub(super) fn level_count(&self, limits: &DeviceLimits) -> u32 {
        if TreeBlocks::of(self.group, limits).is_none() {
            return 0;
        }
        let additions_min = u64::from(self.balance.level_additions_min.max(1));
        let pays = |level: &u32| self.elements() >> level >= additions_min;
        (1..=LEVELS_MAX).take_while(pays).count() as u32
    }

    /// Members of a team if `left` elements are left, a power of two: one member per two elements
    /// of a bucket, if the device has enough lanes.
    pub(super) fn team_size(&self, left: u64, limits: &DeviceLimits) -> u32 {
        let pairs = (left / (2 * u64::from(self.buckets))) as u32;
        let members = TEAM_MEMBERS * limits.multiprocessors / DeviceLimits::H200.multiprocessors;
        1 << pairs.min(members / self.buckets).clamp(1, TEAM_MAX).ilog2()
    }

    /// Members of the teams that sum the rest after the levels.
    pub(super) fn team_after_levels(&self, limits: &DeviceLimits) -> Option<u32> {
        let levels = self.level_count(limits);
        let left = self.elements() >> levels;
        let left_max = u64::from(self.balance.team_elements_max) * u64::from(self.buckets);
        let has_teams = levels > 0 && self.buckets <= TEAM_BUCKETS_MAX && left <= left_max;
        has_teams.then(|| self.team_size(left, limits))
    }

    /// Units of every round, until one warp holds all.
    pub(super) fn units_per_round(&self, shares_max: u32) -> Vec<u32> {
        let shares = self.elements().div_ceil(u64::from(self.balance.share_references_min.max(1)));
        let mut units = vec![shares.clamp(1, u64::from(shares_max)) as u32];
        while let Some(&last @ 2..) = units.last() {
            units.push(last.div_ceil(LANES));
        }
        units
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::blocks::THREE_ROUND_SHARES, *};

    const H200: DeviceLimits = DeviceLimits::H200;

    pub fn shape(digits: u32, level_min: u32) -> AccumulateShape {
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
            let levels = shape(digits, level_min).level_count(&H200);
            assert_eq!(levels, expected, "{digits} {level_min}");
        }
    }

    #[test]
    fn rounds_end_with_one_unit() {
        for (digits, expected) in [
            (0, vec![1]),
            (4, vec![1]),
            (5, vec![2, 1]),
            (4 * 33, vec![33, 2, 1]),
            (1 << 30, vec![1 << 15, 1 << 10, 32, 1]),
        ] {
            assert_eq!(shape(digits, 1).units_per_round(THREE_ROUND_SHARES), expected);
        }
    }

    #[test]
    fn team_size_follows_elements_and_lanes() {
        let team = |digits, buckets| {
            AccumulateShape { buckets, ..shape(digits, u32::MAX) }.team_size(digits.into(), &H200)
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
            let mut shape = shape(digits, level_min);
            shape.balance.team_elements_max = team_left;
            AccumulateShape { buckets: 1_u32 << lg_buckets, ..shape }.team_after_levels(&H200)
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
}
