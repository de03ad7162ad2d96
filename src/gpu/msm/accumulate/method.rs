//! Chooses the method of a bucket accumulation.

use super::{
    kernels::FIRST_LEVEL, layout::AccumulateLayout, shape::AccumulateShape,
    whole_buckets::WholeBucketPlan,
};
use crate::device::DeviceLimits;

pub(super) enum AccumulateMethod {
    /// Teams of lanes sum few references.
    WholeBuckets(WholeBucketPlan),
    /// The tree sums most references, shares or teams the rest.
    TreeAndShares(AccumulateLayout),
}

impl AccumulateMethod {
    pub fn of(shape: &AccumulateShape, limits: &DeviceLimits) -> Self {
        WholeBucketPlan::of(shape, limits).map_or_else(
            || Self::TreeAndShares(AccumulateLayout::of(shape, limits)),
            Self::WholeBuckets,
        )
    }
}

impl AccumulateShape {
    /// Bytes of workspace on a device with these limits.
    pub fn bytes(&self, limits: &DeviceLimits) -> u64 {
        match AccumulateMethod::of(self, limits) {
            AccumulateMethod::WholeBuckets(plan) => plan.bytes(self.group),
            AccumulateMethod::TreeAndShares(layout) => layout.bytes(),
        }
    }

    /// The names of the kernels that have points to add or to list on a device with these limits.
    ///
    /// Shares are launched even if teams follow. They count only without teams, and teams only if
    /// levels leave at least one element per bucket: otherwise most of them have no work.
    pub fn kernels(&self, limits: &DeviceLimits) -> Vec<String> {
        let own = |stage: &str| format!("{}_{stage}", self.group.name());
        let AccumulateMethod::TreeAndShares(layout) = AccumulateMethod::of(self, limits) else {
            return ["bucket_team_sums", "bucket_team_join"].map(own).to_vec();
        };
        let levels = layout.level_count;
        let left = self.elements() >> levels;
        let has_shares = layout.team.is_none();
        let ends: &[&str] = if self.xyzz {
            &["balanced_to_xyzz"]
        } else {
            &["balanced_copy", "balanced_to_affine"]
        };
        let stages = [
            (levels > 0, FIRST_LEVEL.of(self.group)),
            (levels > 1, "tree_level"),
            (has_shares, "balanced_share"),
            (has_shares, "balanced_join"),
            (has_shares && layout.units.len() > 1, "balanced_merge"),
            (!has_shares && left >= u64::from(self.buckets), "balanced_teams"),
        ];
        let used = stages.into_iter().filter(|(used, _)| *used).map(|(_, stage)| stage);
        let lists = ["count", "scan", "rows", "list"].map(|stage| format!("msm_levels_{stage}"));
        lists.into_iter().chain(used.chain(ends.iter().copied()).map(own)).collect()
    }
}
