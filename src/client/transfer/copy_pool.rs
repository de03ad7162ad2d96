//! Multi-threaded copies: one thread copies at half the rate of several connections
//! (`benches/experiments/transport.md`).

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

/// Threads that copy. From 16 MiB on, 16 are 1.4 to 1.6 times as fast, and 4 half as fast
/// (`benches/experiments/transport.md`).
const THREADS: usize = 8;
/// The calling thread copies fewer bytes than this faster by itself. Figures were not kept.
const PARALLEL_BYTES_MIN: usize = 512 << 10;
/// The calling thread wipes fewer bytes than this in the time of handing them to another thread.
/// Figures were not kept.
const BACKGROUND_BYTES_MIN: usize = 64 << 10;

/// The threads that copy for a client and its clones. They start with the first large payload.
///
/// Separate from rayon's global pool, which a prover keeps busy for seconds while uploads wait.
/// `None` on small machines, whose few threads are needed for the connections.
#[derive(Clone, Default)]
pub(crate) struct CopyPool(Arc<OnceLock<Option<ThreadPool>>>);

impl CopyPool {
    /// Maps `items` with `work`, in order; together they copy `bytes` bytes.
    pub fn map<T: Send, R: Send>(
        &self,
        bytes: usize,
        items: Vec<T>,
        work: impl Fn(T) -> R + Send + Sync,
    ) -> Vec<R> {
        let is_shared = bytes >= PARALLEL_BYTES_MIN && items.len() > 1;
        match self.threads_if(is_shared) {
            Some(pool) => {
                pool.install(|| items.into_par_iter().with_max_len(1).map(work).collect())
            }
            None => items.into_iter().map(work).collect(),
        }
    }

    /// Drops and thereby wipes `buffers` of `bytes` bytes in the background, if there are threads.
    pub fn drop_later(&self, bytes: usize, buffers: impl Send + 'static) {
        self.run_later(bytes, move || drop(buffers));
    }

    /// Runs `work` on `bytes` bytes in the background, if there are threads.
    pub fn run_later(&self, bytes: usize, work: impl FnOnce() + Send + 'static) {
        match self.threads_if(bytes >= BACKGROUND_BYTES_MIN) {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    fn threads_if(&self, are_worthwhile: bool) -> Option<&ThreadPool> {
        let start = || {
            let threads =
                thread::available_parallelism().map_or(1, |all| all.get() / 2).min(THREADS);
            let name = |number| format!("capstan-copy-{number}");
            let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name);
            (threads > 1).then(|| pool.build().ok()).flatten()
        };
        are_worthwhile.then(|| self.0.get_or_init(start).as_ref()).flatten()
    }
}
