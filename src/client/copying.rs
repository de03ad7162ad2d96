//! Copies by several threads: one moves some 7 GB/s, half of what several connections carry.

use std::{sync::OnceLock, thread};

use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

/// Threads that copy. More of them gain nothing: then the connections are slower.
const THREADS: usize = 4;
/// Fewer bytes are copied sooner by the thread that has them.
const SHARED_MIN: usize = 512 << 10;

/// `work` on every item, in order; all of them together copy `bytes` bytes.
pub(crate) fn each<T: Send, R: Send>(
    bytes: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Send + Sync,
) -> Vec<R> {
    let shared = bytes >= SHARED_MIN && items.len() > 1;
    match shared.then(pool).flatten() {
        Some(pool) => pool.install(|| items.into_par_iter().with_max_len(1).map(work).collect()),
        None => items.into_iter().map(work).collect(),
    }
}

/// `work`, by one of these threads; at once where there are none.
pub(crate) fn aside(work: impl FnOnce() + Send + 'static) {
    match pool() {
        Some(pool) => pool.spawn(work),
        None => work(),
    }
}

/// Threads of our own: a prover keeps the global ones busy for seconds, and an upload would wait.
/// `None` on small machines, whose few threads have the connections to serve.
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
