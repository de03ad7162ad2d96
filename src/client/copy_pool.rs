//! Multi-threaded copies: one thread copies some 7 GB/s, half the rate of several connections.

use std::{sync::OnceLock, thread};

use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

/// Threads that copy. More gain nothing: the connections become the bottleneck.
const THREADS: usize = 4;
/// The calling thread copies fewer bytes than this faster by itself.
const PARALLEL_BYTES_MIN: usize = 512 << 10;

/// Maps `items` with `work`, in order; together they copy `bytes` bytes.
pub(crate) fn map_parallel<T: Send, R: Send>(
    bytes: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Send + Sync,
) -> Vec<R> {
    let shared = bytes >= PARALLEL_BYTES_MIN && items.len() > 1;
    match shared.then(pool).flatten() {
        Some(pool) => pool.install(|| items.into_par_iter().with_max_len(1).map(work).collect()),
        None => items.into_iter().map(work).collect(),
    }
}

/// Runs `work` on the pool, or on the calling thread if there is no pool.
pub(crate) fn spawn_copy(work: impl FnOnce() + Send + 'static) {
    match pool() {
        Some(pool) => pool.spawn(work),
        None => work(),
    }
}

/// Separate from rayon's global pool, which a prover keeps busy for seconds while uploads wait.
/// `None` on small machines, whose few threads are needed for the connections.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let make = || {
        let threads = thread::available_parallelism().map_or(1, |all| all.get() / 2).min(THREADS);
        let name = |number| format!("capstan-copy-{number}");
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name);
        (threads > 1).then(|| pool.build().ok()).flatten()
    };
    POOL.get_or_init(make).as_ref()
}
