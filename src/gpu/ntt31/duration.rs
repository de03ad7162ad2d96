//! The modelled time of transforms on a GPU, fitted to an H200 (`benches/experiments/ntt31.md`).

use std::time::Duration;

use crate::device::DeviceLimits;

/// An element's share of a butterfly stage.
const STAGE_NS: f64 = 2.7e-4;
const LAUNCHES_NS: f64 = 6e3;

/// The modelled time of transforms of rows of 2^`lg_n` elements.
pub fn transform31_time(lg_n: u32, rows: u32, limits: &DeviceLimits) -> Duration {
    let elements = f64::from(rows) * 2f64.powi(lg_n as i32);
    let stages = f64::from(lg_n) * elements * STAGE_NS * limits.slower_throughput();
    Duration::from_nanos((stages + LAUNCHES_NS * limits.slower_clock()) as u64)
}
