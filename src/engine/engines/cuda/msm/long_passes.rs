//! Passes of large MSMs: what a small MSM of another job must wait for.

use std::time::Duration;

use crate::msm::MsmPassPlan;

/// A pass of a job that yields takes at most this long by the planner's model. Each pass has an
/// overhead of two thirds of a millisecond (`benches/experiments/tenants.md`).
const YIELDING_PASS: Duration = Duration::from_micros(2500);

/// The longest pass of a job that yields, in nanoseconds of the planner's model: less if tests
/// lower the smallest MSM that is split.
pub fn yielding_pass_ns(plan: &MsmPassPlan) -> f64 {
    plan.pass_cost_scale() * YIELDING_PASS.as_nanos() as f64
}

/// Whether an MSM takes longer than a pass of a job that yields.
pub fn is_long(plan: &MsmPassPlan) -> bool {
    plan.job().model_ns(plan.windows(), plan.limits()) > yielding_pass_ns(plan)
}
