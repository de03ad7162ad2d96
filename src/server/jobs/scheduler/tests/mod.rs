use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use super::*;
use crate::error::EngineError;

mod fairness;
mod latency;
mod simulation;

fn is_internal<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::Engine(EngineError::Internal(_))))
}

/// Counts its pieces down; ready while `open`.
struct Countdown {
    pieces: usize,
    fixture: Fixture,
}

impl JobWork for Countdown {
    type Output = &'static str;

    fn is_ready(&self) -> bool {
        self.fixture.open.load(Ordering::SeqCst)
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<Self::Output>> {
        assert!(self.pieces > 0, "stepped after the end");
        self.pieces -= 1;
        Ok((self.pieces == 0).then_some("done"))
    }

    fn span(&self, _: u64) -> Span {
        Span::none()
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.fixture.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Fixture {
    open: Arc<AtomicBool>,
    dropped: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(open: bool) -> Self {
        Self { open: Arc::new(AtomicBool::new(open)), dropped: Arc::default() }
    }

    fn countdown(&self, pieces: usize) -> Countdown {
        Countdown { pieces, fixture: self.clone() }
    }

    /// Waits until `jobs` of them are dropped: cancelled jobs are freed on another thread.
    async fn freed(&self, jobs: usize) {
        for _ in 0..3000 {
            if self.dropped.load(Ordering::SeqCst) == jobs {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} of {jobs} jobs were freed", self.dropped.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_parked_job_runs_when_woken() {
    let scheduler = Scheduler::new(2, BusyPoll::default()).unwrap();
    let fixture = Fixture::new(false);
    let mut wake = None;
    let ticket = scheduler.submit(JobOwner::default(), JobControl::default(), |handle| {
        wake = Some(handle);
        fixture.countdown(3)
    });
    fixture.open.store(true, Ordering::SeqCst);
    wake.unwrap().wake();
    assert_eq!(ticket.await.unwrap().output, "done");
    // The job is dropped before the answer is sent, so that its memory can be reused.
    assert_eq!(fixture.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_job_that_is_not_ready_any_more_leaves_the_queue() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let log = Arc::new(JobLog::default());
    // Keeps the worker busy until the log is open.
    let busy = scheduler.submit(JobOwner::default(), JobControl::default(), |_| log.job('a', 1));
    let fixture = Fixture::new(true);
    let mut wake = None;
    let ticket = scheduler.submit(JobOwner::default(), JobControl::default(), |handle| {
        wake = Some(handle);
        fixture.countdown(1)
    });
    while scheduler.queued() > 1 {
        tokio::task::yield_now().await;
    }
    let wake = wake.unwrap();
    fixture.open.store(false, Ordering::SeqCst);
    wake.wake();
    assert_eq!(scheduler.queued(), 0);
    fixture.open.store(true, Ordering::SeqCst);
    wake.wake();
    assert_eq!(scheduler.queued(), 1);
    log.is_open.store(true, Ordering::SeqCst);
    busy.await.unwrap();
    assert_eq!(ticket.await.unwrap().output, "done");
}

/// Ready, and computed by another job, once it is `open`.
struct ComputedElsewhere(Countdown);

impl JobWork for ComputedElsewhere {
    type Output = &'static str;

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    fn is_computed(&self) -> bool {
        self.0.is_ready()
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<Self::Output>> {
        self.0.step(control)
    }

    fn span(&self, _: u64) -> Span {
        Span::none()
    }
}

#[tokio::test]
async fn a_computed_job_waits_for_no_worker() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let log = Arc::new(JobLog::default());
    // Keeps the worker busy until the log is open.
    let busy = scheduler.submit(JobOwner::default(), JobControl::default(), |_| log.job('a', 1));
    let fixture = Fixture::new(false);
    for pieces in [1, 2] {
        fixture.open.store(false, Ordering::SeqCst);
        let mut wake = None;
        let ticket = scheduler.submit(JobOwner::default(), JobControl::default(), |handle| {
            wake = Some(handle);
            ComputedElsewhere(fixture.countdown(pieces))
        });
        fixture.open.store(true, Ordering::SeqCst);
        wake.unwrap().wake();
        let delivered = ticket.await.map(|done| done.output);
        match pieces {
            1 => assert_eq!(delivered.unwrap(), "done"),
            _ => assert!(is_internal(&delivered), "it was not computed"),
        }
    }
    log.is_open.store(true, Ordering::SeqCst);
    busy.await.unwrap();
    fixture.freed(2).await;
}

#[tokio::test]
async fn a_panic_fails_one_job_and_the_next_one_runs() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let fixture = Fixture::new(true);
    let bad =
        scheduler.submit(JobOwner::default(), JobControl::default(), |_| fixture.countdown(0));
    assert!(is_internal(&bad.await));
    let good =
        scheduler.submit(JobOwner::default(), JobControl::default(), |_| fixture.countdown(2));
    assert_eq!(good.await.unwrap().output, "done");
}

/// A job that is done after one step and panics when it is dropped.
struct PanicsWhenDropped;

impl JobWork for PanicsWhenDropped {
    type Output = &'static str;

    fn is_ready(&self) -> bool {
        true
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<Self::Output>> {
        Ok(Some("done"))
    }

    fn span(&self, _: u64) -> Span {
        Span::none()
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a test of panics outside of a step");
    }
}

#[tokio::test]
async fn a_panic_outside_of_a_step_costs_no_worker() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let fixture = Fixture::new(true);
    let bad = scheduler.submit(JobOwner::default(), JobControl::default(), |_| PanicsWhenDropped);
    assert!(bad.await.is_err());
    let good =
        scheduler.submit(JobOwner::default(), JobControl::default(), |_| fixture.countdown(2));
    let good = tokio::time::timeout(Duration::from_secs(60), good).await;
    assert_eq!(good.expect("a worker is left").unwrap().output, "done");
}

#[tokio::test]
async fn dropping_the_ticket_or_passing_the_deadline_frees_a_parked_job() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let fixture = Fixture::new(false);
    drop(scheduler.submit(JobOwner::default(), JobControl::default(), |_| fixture.countdown(1)));
    let past = JobControl::new(Some(Instant::now()));
    let mut wake = None;
    let late = scheduler.submit(JobOwner::default(), past, |handle| {
        wake = Some(handle);
        fixture.countdown(1)
    });
    wake.unwrap().wake();
    assert!(matches!(late.await, Err(Error::DEADLINE)));
    fixture.freed(2).await;
}

/// Logs its name at each piece; spins in the first one until the log is open. Short if one piece is
/// left.
struct LoggedJob {
    name: char,
    pieces: usize,
    log: Arc<JobLog>,
}

#[derive(Default)]
struct JobLog {
    names: Mutex<String>,
    is_open: AtomicBool,
}

impl JobLog {
    fn open() -> Arc<Self> {
        Arc::new(Self { is_open: AtomicBool::new(true), ..Self::default() })
    }

    fn job(self: &Arc<Self>, name: char, pieces: usize) -> LoggedJob {
        LoggedJob { name, pieces, log: self.clone() }
    }
}

impl JobWork for LoggedJob {
    type Output = ();

    fn is_ready(&self) -> bool {
        true
    }

    fn is_short(&self) -> bool {
        self.pieces == 1
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<()>> {
        while !self.log.is_open.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        self.log.names.lock().push(self.name);
        self.pieces -= 1;
        Ok((self.pieces == 0).then_some(()))
    }

    fn span(&self, _: u64) -> Span {
        Span::none()
    }
}

#[tokio::test]
async fn jobs_take_turns() {
    let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
    let log = Arc::new(JobLog::default());
    let jobs = ['a', 'b'].map(|name| {
        scheduler.submit(JobOwner::default(), JobControl::default(), |_| log.job(name, 3))
    });
    log.is_open.store(true, Ordering::SeqCst);
    for ticket in jobs {
        ticket.await.unwrap();
    }
    assert_eq!(*log.names.lock(), "ababab");
}
