//! The kernels that an accumulation has work for.

use super::{
    layout::{Layout, Shape},
    whole::Cutting,
};
use crate::{curve::Group, device::DeviceLimits};

impl Shape {
    /// The names of the kernels that have points to add or to list on a device of these limits.
    ///
    /// Shares and teams are launched after every tree. Shares count if there are no levels or no
    /// teams, teams if levels leave at least an element a bucket: otherwise most of them only find
    /// out that there is nothing to do.
    pub fn kernels(&self, limits: &DeviceLimits) -> Vec<String> {
        let own = |what: &str| format!("{}_{what}", self.group.name());
        if Cutting::of(self, limits).is_some() {
            return ["whole_sums", "whole_join"].map(own).to_vec();
        }
        let layout = Layout::of(self, limits);
        let levels = layout.level_count;
        let left = self.elements() >> levels;
        let first = match self.group {
            Group::G1 => "tree_first",
            Group::G2 => "tree_level",
        };
        let shared = layout.team.is_none();
        let ends: &[&str] =
            if self.xyzz { &["balanced_spread"] } else { &["balanced_copy", "balanced_collect"] };
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
