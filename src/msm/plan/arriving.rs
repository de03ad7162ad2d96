//! Plans for scalars that are still on their way.

use std::ops::Range;

use super::{Pass, Plan, cuts::ARRIVING_MIN};

impl Plan {
    /// Makes this a plan whose passes the caller chooses ([`Plan::over`]), if there are scalars
    /// enough and nothing needs to be cut: there is one vector, and room for all of it.
    pub fn arrive(&mut self) -> bool {
        let many = self.job.n >= self.cuts.arriving_min.max(1);
        let (one, whole) = (self.job.vectors == 1, self.points == self.job.n);
        // Passes of few digits want other memory than the plan was made for.
        let few = self.sums_whole(&self.largest());
        self.arriving = many && one && whole && self.sets == self.windows.sets() && !few;
        self.arriving
    }

    /// Whether passes are of the caller's choice.
    pub fn is_arriving(&self) -> bool {
        self.arriving
    }

    /// What one more pass may cost, as a part of what it costs: 1, but where fewer scalars than
    /// usual are cut, as many times less.
    pub fn price_part(&self) -> f64 {
        f64::from(self.cuts.arriving_min.max(1)) / f64::from(ARRIVING_MIN)
    }

    /// The pass over these points, of a plan that [`Plan::arrive`] has made. Passes follow each
    /// other from the first point to the last one.
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
