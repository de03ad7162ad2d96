//! Worker threads that run jobs piece by piece.
//!
//! A job runs its next piece only when the data for it has arrived, so a slow sender blocks no
//! worker. Between pieces, a worker picks the most urgent ready job, so a small job does not wait
//! for a large one to end. A share of the workers' time is reserved for jobs that have waited long,
//! so no job starves behind others with short deadlines. Cancelled jobs stop between pieces.

use std::{
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tracing::Span;

use crate::{
    buffer::drop_in_background,
    engine::JobControl,
    error::{Error, Result},
};

/// A job without a deadline is as urgent as one with this much time left. A job is senior once it
/// has waited for workers for this long in total.
const SENIORITY_AGE: Duration = Duration::from_secs(5);

/// While a job is senior, 1/`SENIOR_SHARE` of the workers' time goes to the most senior job, the
/// rest to the most urgent one.
const SENIOR_SHARE: u32 = 4;

/// The work of a job, divided into pieces.
pub trait JobWork: Send + 'static {
    /// The job's output.
    type Output: Send + 'static;

    /// True if [`JobWork::step`] can make progress or report an error.
    fn ready(&self) -> bool;

    /// Does one piece; `Some` after the last one. Called on a worker thread.
    fn step(&mut self, control: &JobControl) -> Result<Option<Self::Output>>;

    /// The log span of the job's steps, created when the job is submitted as number `id`. Its
    /// fields `queue_us` and `run_us`, if it has them, are recorded when the job succeeds.
    fn span(&self, id: u64) -> Span;
}

/// Timing of a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobTiming {
    /// Time ready and waiting for a worker.
    pub queue: Duration,
    /// Time on a worker.
    pub run: Duration,
}

/// A job's output and timing, or its error.
type JobResult<T> = Result<(T, JobTiming)>;

/// The job queue and its workers. Dropping it stops the workers after their current pieces.
pub struct Scheduler {
    shared: Arc<SchedulerShared>,
}

struct SchedulerShared {
    state: Mutex<SchedulerState>,
    ready_signal: Condvar,
}

#[derive(Default)]
struct SchedulerState {
    /// Jobs that wait for a worker.
    ready: HashMap<u64, ReadyJob>,
    /// The numbers of the ready jobs, the most urgent first.
    by_urgency: BTreeSet<(Instant, u64)>,
    /// The numbers of the ready jobs, the longest waiting first.
    by_seniority: BTreeSet<(Instant, u64)>,
    /// Jobs that wait for data.
    parked: HashMap<u64, ScheduledJob>,
    /// Worker time of jobs picked by urgency while a job is senior.
    urgent_time: Duration,
    /// Worker time of jobs picked by seniority.
    senior_run: Duration,
    next_number: u64,
    closed: bool,
}

struct ReadyJob {
    job: ScheduledJob,
    urgency: Instant,
    seniority: Instant,
}

/// Why a job was picked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PickedBy {
    Urgency,
    Seniority,
}

struct ScheduledJob {
    number: u64,
    job: Box<dyn RunnableJob>,
    control: JobControl,
    /// The latest of: submitted, left a worker, became ready.
    state_entered: Instant,
    spent: JobTiming,
}

/// [`JobWork`] with its answer channel.
trait RunnableJob: Send {
    fn ready(&self) -> bool;
    /// True when the answer has been sent.
    fn step(&mut self, control: &JobControl, spent: JobTiming) -> bool;
    fn fail(&mut self, error: Error);
}

struct JobWithReply<W: JobWork> {
    /// `None` once the job has ended.
    work: Option<W>,
    span: Span,
    answer: Option<oneshot::Sender<JobResult<W::Output>>>,
}

impl<W: JobWork> RunnableJob for JobWithReply<W> {
    fn ready(&self) -> bool {
        self.work.as_ref().is_none_or(JobWork::ready)
    }

    fn step(&mut self, control: &JobControl, spent: JobTiming) -> bool {
        let Some(work) = &mut self.work else { return true };
        let (begun, _here) = (Instant::now(), self.span.clone().entered());
        let step = || control.check().and_then(|()| work.step(control));
        let result = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(None)) => return false,
            Ok(Ok(Some(output))) => {
                let spent = JobTiming { run: spent.run + begun.elapsed(), ..spent };
                self.span.record("queue_us", spent.queue.as_micros() as u64);
                self.span.record("run_us", spent.run.as_micros() as u64);
                Ok((output, spent))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Internal("a job panicked".into())),
        };
        // Frees the job's memory before the caller learns of the end and sends the next request.
        self.work = None;
        self.send(result);
        true
    }

    /// Called on any thread: buffers are zeroed on another thread, so that this one does not block.
    fn fail(&mut self, error: Error) {
        drop_in_background(self.work.take());
        self.send(Err(error));
    }
}

impl<W: JobWork> JobWithReply<W> {
    fn send(&mut self, result: JobResult<W::Output>) {
        if let Some(answer) = self.answer.take() {
            // Fails if the caller has gone.
            let _gone = answer.send(result);
        }
    }
}

impl Scheduler {
    /// Starts `workers` threads.
    ///
    /// Errors: `Internal` if threads cannot be started.
    pub fn new(workers: usize) -> Result<Self> {
        let shared =
            Arc::new(SchedulerShared { state: Mutex::default(), ready_signal: Condvar::new() });
        for index in 0..workers.max(1) {
            let shared = shared.clone();
            thread::Builder::new()
                .name(format!("capstan-worker-{index}"))
                .spawn(move || shared.run_worker())
                .map_err(|error| Error::Internal(format!("cannot start a worker: {error}")))?;
        }
        Ok(Self { shared })
    }

    /// Queues a job. `work` receives a [`JobWaker`], to be called when data for the job has
    /// arrived. Dropping the ticket cancels the job.
    pub fn submit<W: JobWork>(
        &self,
        control: JobControl,
        work: impl FnOnce(JobWaker) -> W,
    ) -> JobTicket<W::Output> {
        let (sender, receiver) = oneshot::channel();
        let now = Instant::now();
        let number = {
            let mut state = self.shared.state();
            state.next_number += 1;
            state.next_number
        };
        let wake = JobWaker { shared: Arc::downgrade(&self.shared), number };
        let work = work(wake.clone());
        let span = work.span(number);
        let run = Box::new(JobWithReply { work: Some(work), span, answer: Some(sender) });
        let spent = JobTiming::default();
        let job =
            ScheduledJob { number, job: run, control: control.clone(), state_entered: now, spent };
        if self.shared.state().enqueue(job, Instant::now()) {
            self.shared.ready_signal.notify_one();
        }
        JobTicket { receiver, control, wake }
    }

    /// Number of ready jobs that wait for a worker.
    pub fn queued(&self) -> usize {
        self.shared.state().ready.len()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.ready_signal.notify_all();
    }
}

impl SchedulerState {
    /// Puts a job into `ready` or `parked`; true if it is ready.
    fn enqueue(&mut self, mut job: ScheduledJob, now: Instant) -> bool {
        let (ready, number) = (job.job.ready(), job.number);
        if ready {
            let deadline = job.control.deadline();
            let patience = job.state_entered + SENIORITY_AGE;
            let urgency = deadline.map_or(patience, |deadline| deadline.min(patience));
            job.state_entered = now;
            // `now` minus the total time in the queue: never before the submission.
            let seniority = now - job.spent.queue;
            self.by_urgency.insert((urgency, number));
            self.by_seniority.insert((seniority, number));
            self.ready.insert(number, ReadyJob { job, urgency, seniority });
        } else {
            self.parked.insert(number, job);
        }
        ready
    }

    /// Removes the job that a worker runs next.
    fn pick(&mut self, now: Instant) -> Option<(ScheduledJob, PickedBy)> {
        let (_, urgent) = *self.by_urgency.first()?;
        let (waited_since, oldest) = *self.by_seniority.first()?;
        let matched = self.senior_run * (SENIOR_SHARE - 1);
        if now.saturating_duration_since(waited_since) < SENIORITY_AGE {
            // Without a senior job, no claim accumulates.
            self.urgent_time = self.urgent_time.min(matched);
        }
        let (number, picked_by) = match matched < self.urgent_time {
            true => (oldest, PickedBy::Seniority),
            false => (urgent, PickedBy::Urgency),
        };
        Some((self.take_ready(number)?, picked_by))
    }

    /// Adds the worker time of a picked job.
    fn add_worker_time(&mut self, picked_by: PickedBy, run: Duration) {
        match picked_by {
            PickedBy::Urgency => self.urgent_time += run,
            PickedBy::Seniority => self.senior_run += run,
        }
    }

    fn take_ready(&mut self, number: u64) -> Option<ScheduledJob> {
        let ReadyJob { job, urgency, seniority } = self.ready.remove(&number)?;
        self.by_urgency.remove(&(urgency, number));
        self.by_seniority.remove(&(seniority, number));
        Some(job)
    }

    /// Removes a waiting job if it is cancelled or past its deadline.
    fn remove_stopped(&mut self, number: u64) -> Option<ScheduledJob> {
        let ready = self.ready.get(&number).map(|ready| &ready.job);
        let job = ready.or_else(|| self.parked.get(&number));
        job.filter(|job| job.control.check().is_err())?;
        self.take_ready(number).or_else(|| self.parked.remove(&number))
    }
}

impl SchedulerShared {
    fn state(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_worker(&self) {
        let mut state = self.state();
        while !state.closed {
            let Some((mut job, picked_by)) = state.pick(Instant::now()) else {
                state = self.ready_signal.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let begun = Instant::now();
            job.spent.queue += begun - job.state_entered;
            let mut done = job.job.step(&job.control, job.spent);
            job.state_entered = Instant::now();
            let run = job.state_entered - begun;
            job.spent.run += run;
            state = self.state();
            state.add_worker_time(picked_by, run);
            // Checked under the lock: a later cancellation finds the job where it was placed.
            if !done && let Err(error) = job.control.check() {
                job.job.fail(error);
                done = true;
            }
            if done {
                drop(state);
                drop(job);
                state = self.state();
            } else {
                state.enqueue(job, Instant::now());
            }
        }
    }

    /// Reschedules a waiting job: its data may have arrived, or it may be cancelled.
    fn wake(&self, number: u64) {
        let mut state = self.state();
        if let Some(mut job) = state.remove_stopped(number) {
            drop(state);
            job.job.fail(job.control.check().err().unwrap_or(Error::Cancelled));
        } else if let Some(job) = state.parked.remove(&number) {
            let ready = state.enqueue(job, Instant::now());
            drop(state);
            // A piece takes many messages: only the last one wakes a thread.
            if ready {
                self.ready_signal.notify_one();
            }
        }
    }
}

/// Tells the scheduler that a job may be ready or cancelled.
#[derive(Clone)]
pub struct JobWaker {
    shared: Weak<SchedulerShared>,
    number: u64,
}

impl JobWaker {
    /// Makes the scheduler check the job again. Does nothing if the job has ended.
    pub fn wake(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.wake(self.number);
        }
    }
}

/// A future of the job's result. Dropping it cancels the job.
pub struct JobTicket<T> {
    receiver: oneshot::Receiver<JobResult<T>>,
    control: JobControl,
    wake: JobWaker,
}

impl<T> Future for JobTicket<T> {
    type Output = JobResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.receiver).poll(context);
        answer.map(|answer| answer.unwrap_or(Err(Error::Cancelled)))
    }
}

impl<T> Drop for JobTicket<T> {
    fn drop(&mut self) {
        self.control.cancel();
        self.wake.wake();
    }
}

#[cfg(test)]
mod tests;
