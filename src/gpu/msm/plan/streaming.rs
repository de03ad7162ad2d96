//! Plans for scalars that are still being received.

use std::ops::Range;

use super::{MsmPass, MsmPassPlan, thresholds::STREAMED_SCALARS_MIN};

impl MsmPassPlan {
    /// Lets the caller choose the passes with [`MsmPassPlan::pass_over`], if there are enough
    /// scalars and the plan is one pass over one vector. Returns whether it does.
    pub fn enable_streaming(&mut self) -> bool {
        let is_one_pass = self.points == self.job.n && self.sets == self.windows.sets();
        self.streamed = self.job.n >= self.thresholds.streamed_scalars_min.max(1)
            && self.job.vectors == 1
            && is_one_pass
            // Passes with few digits use another memory layout than the plan's.
            && !self.sums_whole_buckets(&self.largest());
        self.streamed
    }

    pub fn is_streaming(&self) -> bool {
        self.streamed
    }

    /// Scales the cost of one more pass: 1 by default, less in proportion if
    /// [`SplitThresholds`](super::SplitThresholds) lower the smallest MSM that is split.
    pub fn pass_cost_scale(&self) -> f64 {
        f64::from(self.thresholds.streamed_scalars_min.max(1)) / f64::from(STREAMED_SCALARS_MIN)
    }

    /// The pass over these points, for a plan with [`MsmPassPlan::is_streaming`]. Passes must
    /// follow each other from the first point to the last.
    pub fn pass_over(&self, points: Range<u32>) -> MsmPass {
        MsmPass::of(0..1, 0..self.sets, points, self.job.n)
    }
}
