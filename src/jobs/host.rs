//! What jobs compute with.

use std::{sync::Arc, thread::available_parallelism};

use rayon::ThreadPool;

use crate::{
    engine::Engine,
    error::{Error, Result},
};

/// Below this many bytes, handing work to the pool costs more than it gains.
const INLINE_BYTES: usize = 64 << 10;

/// The engine, its oracle, and threads for the work around them: decoding and encoding.
pub struct Host {
    /// Does the jobs.
    pub engine: Arc<dyn Engine>,
    /// Checks them.
    pub oracle: Arc<dyn Engine>,
    pool: ThreadPool,
}

impl Host {
    /// Takes an engine and an oracle, and starts a pool of one thread a core.
    ///
    /// Errors: `Internal` where the system gives no threads.
    pub fn new(engine: Arc<dyn Engine>, oracle: Arc<dyn Engine>) -> Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("capstan-host-{index}"))
            .build()
            .map_err(|error| Error::Internal(format!("cannot start threads: {error}")))?;
        Ok(Self { engine, oracle, pool })
    }

    /// Runs `work` on `bytes` bytes, with the pool's help where they are many.
    pub fn on_pool<R: Send>(&self, bytes: usize, work: impl FnOnce() -> R + Send) -> R {
        if bytes <= INLINE_BYTES { work() } else { self.pool.install(work) }
    }
}
