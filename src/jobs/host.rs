//! The engines and threads that jobs use.

use std::{sync::Arc, thread::available_parallelism};

use rayon::ThreadPool;

use super::waiting_msms::WaitingMsms;
use crate::{
    engine::Engine,
    error::{Error, Result},
    exec::{self, Executor, HostExecutor},
};

/// Up to this many bytes, handing work to the pool costs more than it gains.
const INLINE_BYTES: usize = 64 << 10;

pub struct ComputeHost {
    pub engine: Arc<dyn Engine>,
    pub oracle: Arc<dyn Engine>,
    pub executor: Arc<dyn Executor>,
    /// Small MSMs, to be computed in batches.
    pub waiting_msms: Arc<WaitingMsms>,
    pool: ThreadPool,
}

impl ComputeHost {
    pub fn new(engine: Arc<dyn Engine>, oracle: Arc<dyn Engine>) -> Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("capstan-host-{index}"))
            .build()
            .map_err(|error| Error::Internal(format!("cannot start threads: {error}")))?;
        let host = HostExecutor { engine: engine.clone(), oracle: oracle.clone() };
        let executor = exec::executor_of(engine.clone(), host);
        Ok(Self { engine, oracle, executor, waiting_msms: Arc::default(), pool })
    }

    /// Runs `work`, which handles `bytes` bytes: on the pool if they are many, else on this thread.
    pub fn run_sized<R: Send>(&self, bytes: usize, work: impl FnOnce() -> R + Send) -> R {
        if bytes <= INLINE_BYTES { work() } else { self.pool.install(work) }
    }
}
