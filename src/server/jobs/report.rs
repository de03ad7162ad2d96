//! What every job reports about its computation.

use std::time::Duration;

use crate::{engine::ExecutedBy, verify::Verification};

pub struct JobReport {
    /// log2 of the length of one vector or row, rounded down.
    pub lg_n: u32,
    pub verify: Verification,
    /// Time spent checking; part of the run time.
    pub verify_time: Duration,
    pub executor: ExecutedBy,
}
