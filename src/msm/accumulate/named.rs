//! The kernels that a bucket accumulation has work for.

use super::{
    layout::{AccumulateLayout, AccumulateShape},
    whole_buckets::WholeBucketPlan,
};
use crate::{curve::Group, device::DeviceLimits};

impl AccumulateShape {
    /// The names of the kernels that have points to add or to list on a device with these limits.
    ///
    /// Shares are launched even if teams follow. They count only without teams, and teams only if
    /// levels leave at least one element per bucket: otherwise most of them have no work.
    pub fn kernels(&self, limits: &DeviceLimits) -> Vec<String> {
        let own = |what: &str| format!("{}_{what}", self.group.name());
        if WholeBucketPlan::of(self, limits).is_some() {
            return ["bucket_team_sums", "bucket_team_join"].map(own).to_vec();
        }
        let layout = AccumulateLayout::of(self, limits);
        let levels = layout.level_count;
        let left = self.elements() >> levels;
        let first = match self.group {
            Group::G1 => "tree_first",
            Group::G2 => "tree_level",
        };
        let shared = layout.team.is_none();
        let ends: &[&str] = if self.xyzz {
            &["balanced_to_xyzz"]
        } else {
            &["balanced_copy", "balanced_to_affine"]
        };
        let stages = [
            (levels > 0, first),
            (levels > 1, "tree_level"),
            (shared, "balanced_share"),
            (shared, "balanced_join"),
            (shared && layout.units.len() > 1, "balanced_merge"),
            (!shared && left >= u64::from(self.buckets), "balanced_teams"),
        ];
        let used = stages.into_iter().filter(|(used, _)| *used).map(|(_, stage)| stage);
        let lists = ["count", "scan", "place", "list"].map(|what| format!("msm_levels_{what}"));
        lists.into_iter().chain(used.chain(ends.iter().copied()).map(own)).collect()
    }
}
