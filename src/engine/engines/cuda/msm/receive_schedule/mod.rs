//! Decides whether to launch a pass over the scalars received so far. Pure.
//!
//! Each extra pass has an overhead, so there should be few; but waiting leaves the device idle. For
//! a fast sender, the first pass is just large enough to keep the device busy until all scalars are
//! received, and the second takes the rest. For a slow sender, passes are as small as their
//! overhead allows, so that little work is left after the last scalar.

/// Launch a pass once it keeps the device busy for this fraction of the remaining receive time; the
/// next pass can then be the last. Below 1, since that time is extrapolated. Figures were not kept.
const BRIDGE_PART: f64 = 0.8;

/// Shortest pass worth launching otherwise, as a multiple of its overhead. With 3, simulated MSMs
/// end up to 4 % later (`benches/experiments/msm.md`).
const WORTH_OVERHEADS: f64 = 2.0;

/// A pass that will be large enough within this many overheads waits. Figures were not kept.
const SOON_OVERHEADS: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
pub struct ReceiveProgress {
    pub n: u32,
    /// Scalars already in passes.
    pub launched: u32,
    /// Scalars received without a gap.
    pub received: u32,
    /// Pieces received: a decision is made after each.
    pub pieces: u32,
    /// Time since the first scalars were received.
    pub elapsed_ns: f64,
    /// Time until the device finishes the passes launched.
    pub busy_ns: f64,
    /// Duration of the whole MSM as one pass.
    pub whole_ns: f64,
    /// Overhead of one more pass.
    pub overhead_ns: f64,
}

impl ReceiveProgress {
    /// Duration of a pass over the scalars that are received and in no pass.
    pub fn pass_ns(&self) -> f64 {
        self.ns_of(self.received - self.launched)
    }

    /// Duration of a pass over this many points, overhead excluded.
    pub fn ns_of(&self, points: u32) -> f64 {
        self.whole_ns * f64::from(points) / f64::from(self.n)
    }

    /// The number of points of a pass of this duration, overhead excluded; at least 1.
    pub fn points_in(&self, pass_ns: f64) -> u32 {
        ((pass_ns / self.whole_ns * f64::from(self.n)) as u32).max(1)
    }

    /// Whether to launch that pass now.
    pub fn is_due(&self) -> bool {
        let Self { n, launched, received, elapsed_ns, busy_ns, overhead_ns, .. } = *self;
        if received == n || received == launched {
            return launched < received;
        }
        let left_ns = elapsed_ns * f64::from(n - received) / f64::from(received);
        let piece_ns = elapsed_ns / f64::from(self.pieces.max(1));
        // Waiting is better, unless the device would be idle before the next decision.
        if busy_ns >= piece_ns || busy_ns >= left_ns {
            return false;
        }
        let (pass_ns, idle_ns) = (self.pass_ns(), left_ns - busy_ns);
        if pass_ns.min(idle_ns) <= overhead_ns {
            return false;
        }
        // With time, the pass becomes longer and the time to bridge shorter.
        let rate = self.whole_ns * f64::from(received) / f64::from(n) / elapsed_ns;
        let bridges_in = (BRIDGE_PART * idle_ns - pass_ns - overhead_ns) / (BRIDGE_PART + rate);
        bridges_in <= 0.0
            || pass_ns >= WORTH_OVERHEADS * overhead_ns && bridges_in > SOON_OVERHEADS * overhead_ns
    }
}

#[cfg(test)]
mod tests;
