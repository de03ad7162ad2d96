//! Runs the jobs of the self-test, on several threads if the GPU has memory for jobs at a time: the
//! host takes longer to know the results than the GPU takes to compute them.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use parking_lot::Mutex;
use tracing::{Span, debug};

use crate::device::DeviceFault;

type RunJob<'t> = Box<dyn Fn() -> Result<(), DeviceFault> + Send + Sync + 't>;

/// A part of the self-test that depends on no other part.
pub struct SelfTestJob<'t> {
    name: String,
    run: RunJob<'t>,
}

impl<'t> SelfTestJob<'t> {
    /// A job of this kind and size.
    pub fn new(
        kind: &str,
        size: &impl Debug,
        run: impl Fn() -> Result<(), DeviceFault> + Send + Sync + 't,
    ) -> Self {
        Self { name: format!("{kind}, {size:?}"), run: Box::new(run) }
    }

    fn run(&self) -> Result<(), DeviceFault> {
        let begun = Instant::now();
        let tested = (self.run)();
        debug!(job = self.name, ms = begun.elapsed().as_millis() as u64, "tested");
        tested
    }
}

/// Runs jobs one after the other, and calls `free` after each.
pub fn run_in_turn(jobs: &[SelfTestJob<'_>], free: impl Fn()) -> Result<(), DeviceFault> {
    jobs.iter().try_for_each(|job| {
        let tested = job.run();
        free();
        tested
    })
}

/// Runs jobs on this many threads. Fails with the first failure, after which no job begins.
pub fn run_at_once(jobs: &[SelfTestJob<'_>], threads: usize) -> Result<(), DeviceFault> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let span = Span::current();
    let work = || {
        let _in_span = span.enter();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(fault) = job.run() {
                let mut first = failure.lock();
                // Jobs that had too little memory run again: that must not hide another fault.
                if matches!(*first, None | Some(DeviceFault::OutOfMemory { .. })) {
                    *first = Some(fault);
                }
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn jobs_run_at_the_same_time_and_the_first_failure_ends_the_test() {
        let both = Barrier::new(2);
        let runs = AtomicUsize::new(0);
        let count = || {
            runs.fetch_add(1, Ordering::Relaxed);
        };
        let meet = SelfTestJob::new("meets the other", &1, || {
            both.wait();
            count();
            Ok(())
        });
        let fail = SelfTestJob::new("fails", &2, || {
            both.wait();
            count();
            Err(DeviceFault::WrongResult("a sum".into()))
        });
        let more = [(); 8].map(|()| {
            SelfTestJob::new("comes later", &3, || {
                count();
                Ok(())
            })
        });
        let jobs: Vec<_> = [meet, fail].into_iter().chain(more).collect();
        // The barrier lets no job pass alone.
        assert_eq!(run_at_once(&jobs, 2), Err(DeviceFault::WrongResult("a sum".into())));
        assert!(runs.load(Ordering::Relaxed) >= 2);
        assert_eq!(run_at_once(&jobs[2..], 3), Ok(()));
        let before = runs.load(Ordering::Relaxed);
        assert_eq!(run_in_turn(&jobs[2..], count), Ok(()));
        assert_eq!(runs.load(Ordering::Relaxed), before + 16);
    }
}
