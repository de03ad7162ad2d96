//! The executor and the threads that jobs use.

use std::{sync::Arc, thread::available_parallelism, time::Duration};

use rayon::ThreadPool;

use super::waiting_msms::WaitingMsms;
use crate::{
    curve::Group,
    error::{Error, Result},
    exec::Executor,
};

/// Up to this many bytes, handing work to the pool costs more than it gains.
const INLINE_BYTES: usize = 64 << 10;

/// Time of one core to decode and check a point (`benches/experiments/cpu-engine.md`).
const POINT_CHECK_G1: Duration = Duration::from_micros(100);
const POINT_CHECK_G2: Duration = Duration::from_micros(280);

pub struct ComputeHost {
    pub executor: Arc<dyn Executor>,
    /// Small MSMs, to be computed in batches.
    pub waiting_msms: Arc<WaitingMsms>,
    pool: ThreadPool,
}

impl ComputeHost {
    pub fn new(executor: Arc<dyn Executor>) -> Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("capstan-host-{index}"))
            .build()
            .map_err(|error| Error::internal(format!("cannot start threads: {error}")))?;
        Ok(Self { executor, waiting_msms: Arc::default(), pool })
    }

    /// The modelled time to decode and check points of a request.
    pub fn check_time(&self, group: Group, points: u64) -> Duration {
        let of_point = match group {
            Group::G1 => POINT_CHECK_G1,
            Group::G2 => POINT_CHECK_G2,
        };
        of_point.mul_f64(points as f64 / self.pool.current_num_threads() as f64)
    }

    /// Runs `work`, which handles `bytes` bytes: on the pool if they are many, else on this thread.
    pub fn run_sized<R: Send>(&self, bytes: usize, work: impl FnOnce() -> R + Send) -> R {
        if bytes <= INLINE_BYTES { work() } else { self.pool.install(work) }
    }
}
