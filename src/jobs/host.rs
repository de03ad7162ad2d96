//! The executor and the threads that jobs use.

use std::{sync::Arc, thread::available_parallelism};

use rayon::ThreadPool;

use super::waiting_msms::WaitingMsms;
use crate::{
    error::{Error, Result},
    exec::Executor,
};

/// Up to this many bytes, handing work to the pool costs more than it gains.
const INLINE_BYTES: usize = 64 << 10;

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
            .map_err(|error| Error::Internal(format!("cannot start threads: {error}")))?;
        Ok(Self { executor, waiting_msms: Arc::default(), pool })
    }

    /// Runs `work`, which handles `bytes` bytes: on the pool if they are many, else on this thread.
    pub fn run_sized<R: Send>(&self, bytes: usize, work: impl FnOnce() -> R + Send) -> R {
        if bytes <= INLINE_BYTES { work() } else { self.pool.install(work) }
    }
}
