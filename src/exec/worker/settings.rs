//! How the server uses its worker processes.

use std::{path::PathBuf, time::Duration};

use super::{message::WorkerSettings, process::WorkerCommand};
use crate::exec::executor::MSM_BATCH_SCALARS_MAX;

/// The workers of a server, one per GPU.
#[derive(Debug, Clone)]
pub struct WorkerPoolSettings {
    /// How workers are started.
    pub command: WorkerCommand,
    /// Path of the driver library; `None` means the system's.
    pub driver: Option<PathBuf>,
    /// Device numbers in the driver's order; empty means all.
    pub devices: Vec<u32>,
    /// Percentage of the free device memory that jobs may lease.
    pub memory_percent: u64,
    /// Time limit for one piece of work on a GPU.
    pub timeout: Duration,
    /// MSMs with fewer scalars run on the CPU.
    pub msm_scalars_min: u64,
    /// NTTs with fewer elements run on the CPU.
    pub ntt_elements_min: u64,
    /// Threads of each worker's CPU engine; 0 means one per core.
    pub threads: usize,
    /// Threads of each worker's oracle; 0 means one per core.
    pub verify_threads: usize,
    /// When one MSM is computed on several GPUs.
    pub spread: SpreadPolicy,
}

/// When one MSM is computed on several GPUs. The defaults are what the daemon uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadPolicy {
    /// MSMs with fewer scalars, of all rows, run on one GPU.
    pub scalars_min: u64,
    /// The most modelled time of all GPUs together, relative to that on one GPU.
    pub gpu_time_max: f64,
}

impl Default for SpreadPolicy {
    fn default() -> Self {
        // Smaller MSMs form batches, and several batches use several GPUs.
        let scalars_min = MSM_BATCH_SCALARS_MAX as u64 + 1;
        // Calls that wait for the GPUs pay for the time that sharing an MSM adds. On two GPUs, an
        // MSM must take at most 0.8 times as long as on one.
        let gpu_time_max = 1.6;
        Self { scalars_min, gpu_time_max }
    }
}

impl WorkerPoolSettings {
    pub(super) fn of_device(&self, device: u32) -> WorkerSettings {
        WorkerSettings {
            driver: self.driver.clone(),
            device,
            memory_percent: self.memory_percent,
            timeout: self.timeout,
            msm_scalars_min: self.msm_scalars_min,
            ntt_elements_min: self.ntt_elements_min,
            threads: self.threads,
            verify_threads: self.verify_threads,
        }
    }
}
