//! Passes of large MSMs on one device: what a small MSM of another job must wait for.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    device::{DeviceFault, Event},
    msm::MsmPassPlan,
};

/// A pass of a job that yields takes at most this long by the planner's model. Each pass has an
/// overhead of two thirds of a millisecond (`benches/experiments/tenants.md`).
const YIELDING_PASS: Duration = Duration::from_micros(2500);

/// Which passes of a long MSM may be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassLimit {
    /// All that are due: the job does not yield.
    Unlimited,
    /// One pass, a short one if the schedule can still split it.
    Short,
    /// None, since another one is pending.
    Nothing,
}

/// The longest pass of a job that yields, in nanoseconds of the planner's model: less if tests
/// lower the smallest MSM that is split.
pub fn yielding_pass_ns(plan: &MsmPassPlan) -> f64 {
    plan.pass_cost_scale() * YIELDING_PASS.as_nanos() as f64
}

/// Whether an MSM takes longer than a pass of a job that yields.
pub fn is_long(plan: &MsmPassPlan) -> bool {
    plan.job().model_ns(plan.windows(), plan.limits()) > yielding_pass_ns(plan)
}

/// The end of the last pass of a long MSM, of any job.
#[derive(Default)]
pub struct LongPasses(Mutex<Option<Event>>);

impl LongPasses {
    /// Notes the end of a pass that has just been launched.
    pub fn record(&self, end: Event) {
        *self.0.lock() = Some(end);
    }

    pub fn last_end(&self) -> Option<Event> {
        self.0.lock().clone()
    }

    /// What a job may launch now.
    pub fn limit(&self, yields: bool) -> Result<PassLimit, DeviceFault> {
        if !yields {
            return Ok(PassLimit::Unlimited);
        }
        match self.last_end() {
            Some(end) if !end.is_reached()? => Ok(PassLimit::Nothing),
            _ => Ok(PassLimit::Short),
        }
    }
}
