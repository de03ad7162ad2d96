//! Passes of large MSMs on one device: what a small MSM of another job must wait for.

use std::time::Duration;

use parking_lot::Mutex;

use super::pass_schedule::PendingPasses;
use crate::{device::Event, msm::MsmPassPlan};

/// A pass of a job that yields takes at most this long by the planner's model. Each pass has an
/// overhead of two thirds of a millisecond (`benches/experiments/tenants.md`).
const YIELDING_PASS: Duration = Duration::from_micros(2500);

/// The same in nanoseconds, for this plan: less if tests lower the smallest MSM that is split.
pub fn yielding_pass_ns(plan: &MsmPassPlan) -> f64 {
    plan.pass_cost_scale() * YIELDING_PASS.as_nanos() as f64
}

/// Whether an MSM takes longer than a pass of a job that yields.
pub fn is_long(plan: &MsmPassPlan) -> bool {
    plan.job().model_ns(plan.windows(), plan.limits()) > yielding_pass_ns(plan)
}

/// The ends of the last two passes of long MSMs, of all jobs.
#[derive(Default)]
pub struct LongPasses(Mutex<LastPasses>);

#[derive(Default)]
struct LastPasses {
    last: Option<Event>,
    previous: Option<Event>,
}

impl LongPasses {
    /// Adds the end of a pass that has just been launched.
    pub fn record(&self, end: Event) {
        let mut passes = self.0.lock();
        passes.previous = passes.last.replace(end);
    }

    pub fn pending(&self) -> PendingPasses {
        let passes = self.0.lock();
        PendingPasses::of(passes.last.as_ref(), passes.previous.as_ref())
    }

    /// The end of the pass before the last one: when it is reached, one is pending at most.
    pub fn previous_end(&self) -> Option<Event> {
        self.0.lock().previous.clone()
    }
}
