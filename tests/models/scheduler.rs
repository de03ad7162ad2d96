//! The scheduler: jobs whose data arrives while they wait and run, cancellation, shutdown.

use std::sync::Arc;

use capstan::{
    engine::JobControl,
    error::ServiceError,
    exec::BusyPoll,
    jobs::{JobOwner, JobTicket, JobWaker, JobWork, Scheduler},
};
use shuttle::{
    future::block_on,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use tracing::Span;

use crate::check;

/// Counts what became of the work of jobs.
#[derive(Default)]
struct Counts {
    /// Pieces whose data has arrived.
    arrived: AtomicUsize,
    running: AtomicUsize,
    dropped: AtomicUsize,
}

/// A job of two pieces, each of which needs data.
struct Pieces {
    counts: Arc<Counts>,
    done: usize,
    /// Whether another job computes the result when the first data arrives.
    is_computed_elsewhere: bool,
}

impl JobWork for Pieces {
    type Output = usize;

    fn is_ready(&self) -> bool {
        self.counts.arrived.load(Ordering::SeqCst) > self.done
    }

    fn is_computed(&self) -> bool {
        self.is_computed_elsewhere && self.is_ready()
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<usize>, ServiceError> {
        assert!(self.is_ready(), "stepped without data");
        assert_eq!(self.counts.running.fetch_add(1, Ordering::SeqCst), 0, "stepped twice at once");
        self.done += 1;
        self.counts.running.fetch_sub(1, Ordering::SeqCst);
        let is_last = self.done == 2 || self.is_computed_elsewhere;
        Ok(is_last.then_some(self.done))
    }

    fn span(&self, _: u64) -> Span {
        Span::none()
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

struct Submitted {
    ticket: JobTicket<usize>,
    counts: Arc<Counts>,
    waker: JobWaker,
}

fn submit(scheduler: &Scheduler, is_computed_elsewhere: bool) -> Submitted {
    let counts = Arc::<Counts>::default();
    let mut waker = None;
    let ticket = scheduler.submit(JobOwner::default(), JobControl::default(), |job| {
        waker = Some(job);
        Pieces { counts: counts.clone(), done: 0, is_computed_elsewhere }
    });
    Submitted { ticket, counts, waker: waker.expect("called at once") }
}

/// Sends the data of a job from another thread.
fn send(counts: &Arc<Counts>, waker: &JobWaker) -> thread::JoinHandle<()> {
    let (counts, waker) = (counts.clone(), waker.clone());
    thread::spawn(move || {
        for _ in 0..2 {
            counts.arrived.fetch_add(1, Ordering::SeqCst);
            waker.wake();
        }
    })
}

fn scheduler() -> Scheduler {
    Scheduler::new(2, BusyPoll::default()).expect("threads")
}

#[test]
fn every_job_whose_data_arrives_ends() {
    check(|| {
        let scheduler = scheduler();
        let jobs = [(); 2].map(|()| submit(&scheduler, false));
        let senders = jobs.each_ref().map(|job| send(&job.counts, &job.waker));
        for Submitted { ticket, counts, .. } in jobs {
            let finished = block_on(ticket).expect("no failure");
            assert_eq!(finished.output, 2);
            // Before the answer, so that its memory can be used by the next request.
            assert_eq!(counts.dropped.load(Ordering::SeqCst), 1);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(scheduler.queued(), 0);
    });
}

#[test]
fn a_result_that_another_job_computes_is_delivered() {
    check(|| {
        let scheduler = scheduler();
        let jobs = [true, false].map(|elsewhere| submit(&scheduler, elsewhere));
        let senders = jobs.each_ref().map(|job| send(&job.counts, &job.waker));
        let outputs = jobs.map(|job| block_on(job.ticket).expect("no failure").output);
        assert_eq!(outputs, [1, 2]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_cancelled_job_is_dropped_once_whatever_it_was_doing() {
    check(|| {
        let scheduler = scheduler();
        let Submitted { ticket, counts, waker } = submit(&scheduler, false);
        let sender = send(&counts, &waker);
        let canceller = thread::spawn(move || drop(ticket));
        canceller.join().unwrap();
        sender.join().unwrap();
        // Jobs after it run.
        let Submitted { ticket, counts: next, waker } = submit(&scheduler, false);
        let sender = send(&next, &waker);
        assert_eq!(block_on(ticket).expect("no failure").output, 2);
        sender.join().unwrap();
        drop(scheduler);
        // The wiper's thread drops failed work.
        while counts.dropped.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(counts.dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_shutdown_answers_every_ticket_and_ends_every_thread() {
    check(|| {
        let scheduler = scheduler();
        let with_data = submit(&scheduler, false);
        let without_data = submit(&scheduler, true);
        let sender = send(&with_data.counts, &with_data.waker);
        let closer = thread::spawn(move || drop(scheduler));
        match block_on(with_data.ticket) {
            Ok(finished) => assert_eq!(finished.output, 2),
            Err(error) => assert_eq!(error, ServiceError::CANCELLED),
        }
        assert_eq!(block_on(without_data.ticket).err(), Some(ServiceError::CANCELLED));
        sender.join().unwrap();
        closer.join().unwrap();
        // The checker fails if a thread of the scheduler does not end.
    });
}
