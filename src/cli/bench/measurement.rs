//! What one job took.

use std::time::Duration;

use crate::client::{Execution, Timing};

pub struct Measurement {
    /// Time of the whole call.
    pub latency: Duration,
    pub timing: Timing,
    pub execution: Execution,
}
