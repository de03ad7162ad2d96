//! Plans for scalars that are still being received.

use std::ops::Range;

use super::{Pass, Plan, cuts::ARRIVING_MIN};

impl Plan {
    /// Lets the caller choose the passes with [`Plan::over`], if there are enough scalars and the
    /// plan is one pass over one vector. Returns whether it does.
    pub fn arrive(&mut self) -> bool {
        let many = self.job.n >= self.cuts.arriving_min.max(1);
        let (one, whole) = (self.job.vectors == 1, self.points == self.job.n);
        // Passes with few digits use another memory layout than the plan's.
        let few = self.sums_whole(&self.largest());
        self.arriving = many && one && whole && self.sets == self.windows.sets() && !few;
        self.arriving
    }

    /// Whether the caller chooses the passes.
    pub fn is_arriving(&self) -> bool {
        self.arriving
    }

    /// Scales the cost of one more pass: 1 by default, less in proportion if [`Cuts`](super::Cuts)
    /// lower the smallest MSM that is split.
    pub fn price_part(&self) -> f64 {
        f64::from(self.cuts.arriving_min.max(1)) / f64::from(ARRIVING_MIN)
    }

    /// The pass over these points, for a plan with [`Plan::is_arriving`]. Passes must follow each
    /// other from the first point to the last.
    pub fn over(&self, points: Range<u32>) -> Pass {
        let Range { start, end } = points;
        Pass {
            vectors: (0, 1),
            sets: (0, self.sets),
            points: (start, end - start),
            onto: start > 0,
            last: end == self.job.n,
        }
    }
}
