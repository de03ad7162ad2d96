//! How the server uses its worker processes.

use std::time::Duration;

use super::{message::WorkerSettings, process::WorkerCommand};
use crate::exec::MSM_BATCH_SCALARS_MAX;

/// The workers of a server, one per GPU.
#[derive(Debug, Clone)]
pub struct WorkerPoolSettings {
    /// How workers are started.
    pub command: WorkerCommand,
    /// Device numbers in the driver's order; empty means all.
    pub devices: Vec<u32>,
    /// What all workers get.
    pub worker: WorkerSettings,
    /// When one call is computed on several GPUs.
    pub spread: SpreadPolicy,
}

/// When one call is computed on several GPUs. The defaults are what the daemon uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadPolicy {
    /// MSMs with fewer scalars, of all rows, run on one GPU.
    pub scalars_min: u64,
    /// Programs with less modelled time run on one GPU.
    pub program_time_min: Duration,
    /// The most modelled time of all GPUs together, relative to that on one GPU.
    pub gpu_time_max: f64,
}

impl Default for SpreadPolicy {
    fn default() -> Self {
        // Smaller MSMs form batches, and several batches use several GPUs.
        let scalars_min = MSM_BATCH_SCALARS_MAX as u64 + 1;
        // An MSM of that size takes about as long.
        let program_time_min = Duration::from_millis(2);
        // Calls that wait for the GPUs pay for the time that dividing a call adds. On two GPUs, it
        // must take at most 0.8 times as long as on one.
        let gpu_time_max = 1.6;
        Self { scalars_min, program_time_min, gpu_time_max }
    }
}
