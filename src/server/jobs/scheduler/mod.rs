//! Worker threads that run jobs piece by piece.
//!
//! Jobs are split into pieces by the trait `JobWork`, not by threads that block. A job runs its
//! next piece only when the data for it has arrived, so a slow sender blocks no worker. Between
//! pieces, a worker picks the tenant that has used the least time for its weight, and that tenant's
//! most urgent ready job. So a small job waits behind a large one for one piece at most, or two
//! while a job is senior: one that has waited for five seconds, for which a quarter of its tenant's
//! time is reserved, so that no job starves behind others with short deadlines. Cancelled jobs stop
//! between pieces. A job whose result another job has computed need not wait for a worker: one more
//! thread delivers it.
//!
//! If several tenants have jobs, a long one yields while there are short ones: for 200 ms after a
//! job of at most 5 ms by the model has run, longer jobs are told to yield (`JobControl::yields`),
//! those of the same tenant included, or it would get more than its share.

mod queue;
mod short_jobs;
mod tenant_queue;

pub use self::{
    queue::JobOwner,
    short_jobs::SHORT_JOB_MAX,
    tenant_queue::{JobPriority, SENIORITY_AGE},
};

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tracing::Span;

use self::queue::{
    JobPlace, JobQueue, JobTiming, PickedJob, RunnableJob, ScheduledJob, SteppedJob,
};
use crate::{
    buffer::Wiper,
    engine::JobControl,
    error::{Error, Result},
    exec::BusyPoll,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
        thread,
    },
};

/// The work of a job, divided into pieces.
pub trait JobWork: Send + 'static {
    type Output: Send + 'static;

    /// True if [`JobWork::step`] can make progress or report an error.
    fn is_ready(&self) -> bool;

    /// Whether the job takes at most `SHORT_JOB_MAX` by the model.
    fn is_short(&self) -> bool {
        false
    }

    /// Whether the job is ready and its result has been computed, so that its next step is the last
    /// one and takes only microseconds.
    fn is_computed(&self) -> bool {
        false
    }

    /// Does one piece; `Some` after the last one. Called on a thread of the scheduler.
    fn step(&mut self, control: &JobControl) -> Result<Option<Self::Output>>;

    /// The worker time that the job's tenant is charged for the last step, which took `step`, if
    /// it is another one: jobs of a batch share the time of the one that computed them.
    fn charged_time(_output: &Self::Output, step: Duration) -> Duration {
        step
    }

    /// The log span of the job's steps, created when the job is submitted as number `id`. Its
    /// fields `queue_us` and `run_us`, if it has them, are recorded when the job succeeds.
    fn span(&self, id: u64) -> Span;
}

pub struct FinishedJob<T> {
    pub output: T,
    pub timing: JobTiming,
}

/// The job queue and its workers. Dropping it stops the workers after their current pieces.
pub struct Scheduler {
    shared: Arc<SchedulerShared>,
    /// Drops the work of failed jobs.
    wiper: Wiper,
}

struct SchedulerShared {
    state: Mutex<SchedulerState>,
    job_is_ready: Condvar,
    job_is_computed: Condvar,
    /// The number of times that a job became ready.
    ready_count: AtomicU64,
    busy_poll: BusyPoll,
}

#[derive(Default)]
struct SchedulerState {
    queue: JobQueue,
    next_number: u64,
    is_closed: bool,
}

struct JobWithReply<W: JobWork> {
    /// `None` once the job has ended.
    work: Option<W>,
    span: Span,
    answer: Option<oneshot::Sender<Result<FinishedJob<W::Output>>>>,
    wiper: Wiper,
}

impl<W: JobWork> RunnableJob for JobWithReply<W> {
    fn is_ready(&self) -> bool {
        self.work.as_ref().is_none_or(JobWork::is_ready)
    }

    fn is_short(&self) -> bool {
        self.work.as_ref().is_some_and(JobWork::is_short)
    }

    fn is_computed(&self) -> bool {
        self.work.as_ref().is_some_and(JobWork::is_computed)
    }

    fn step(&mut self, control: &JobControl, timing: JobTiming) -> SteppedJob {
        let nothing = SteppedJob { is_done: true, charged: Duration::ZERO };
        let Some(work) = &mut self.work else { return nothing };
        let begun = Instant::now();
        let _in_span = self.span.clone().entered();
        let step = || {
            control.check()?;
            work.step(control)
        };
        let result = catch_unwind(AssertUnwindSafe(step));
        let run = begun.elapsed();
        let (result, charged) = match result {
            Ok(Ok(None)) => return SteppedJob { is_done: false, charged: run },
            Ok(Ok(Some(output))) => {
                let charged = W::charged_time(&output, run);
                let timing = JobTiming { run: timing.run + run, ..timing };
                self.span.record("queue_us", timing.queue.as_micros() as u64);
                self.span.record("run_us", timing.run.as_micros() as u64);
                (Ok(FinishedJob { output, timing }), charged)
            }
            Ok(Err(error)) => (Err(error), run),
            Err(_) => (Err(Error::internal("a job panicked")), run),
        };
        // Frees the job's memory before the caller learns of the end and sends the next request.
        self.work = None;
        self.send(result);
        SteppedJob { is_done: true, charged }
    }

    /// Called on any thread: buffers are zeroed on another thread, so that this one does not block.
    fn fail(&mut self, error: Error) {
        self.wiper.drop_later(self.work.take());
        self.send(Err(error));
    }
}

impl<W: JobWork> JobWithReply<W> {
    fn send(&mut self, result: Result<FinishedJob<W::Output>>) {
        if let Some(answer) = self.answer.take() {
            // Fails if the caller has gone.
            let _gone = answer.send(result);
        }
    }
}

impl Scheduler {
    /// Workers without jobs wait with `busy_poll`.
    pub fn new(workers: usize, busy_poll: BusyPoll) -> Result<Self> {
        let shared = Arc::new(SchedulerShared {
            state: Mutex::default(),
            job_is_ready: Condvar::new(),
            job_is_computed: Condvar::new(),
            ready_count: AtomicU64::new(0),
            busy_poll,
        });
        let start = |name: String, run: fn(&SchedulerShared)| {
            let shared = shared.clone();
            // A panic outside of a job's step is reported by its hook. The thread goes on: without
            // workers, jobs would wait forever while the server looks healthy.
            let run_again =
                move || while catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {};
            let started = thread::Builder::new().name(name).spawn(run_again);
            started.map_err(|error| Error::internal(format!("cannot start a worker: {error}")))
        };
        for index in 0..workers.max(1) {
            start(format!("capstan-worker-{index}"), SchedulerShared::run_worker)?;
        }
        start("capstan-deliver".into(), SchedulerShared::deliver)?;
        Ok(Self { shared, wiper: Wiper::default() })
    }

    /// Queues a job of `owner`. `work` receives a [`JobWaker`], to be called when data for the job
    /// has arrived. Dropping the ticket cancels the job.
    pub fn submit<W: JobWork>(
        &self,
        owner: JobOwner,
        control: JobControl,
        work: impl FnOnce(JobWaker) -> W,
    ) -> JobTicket<W::Output> {
        let (sender, receiver) = oneshot::channel();
        let state_entered = Instant::now();
        let number = {
            let mut state = self.shared.state.lock();
            state.next_number += 1;
            state.next_number
        };
        let waker = JobWaker { shared: Arc::downgrade(&self.shared), number };
        let work = work(waker.clone());
        let span = work.span(number);
        let work = Some(work);
        let answer = Some(sender);
        let wiper = self.wiper.clone();
        let job = ScheduledJob {
            number,
            owner,
            job: Box::new(JobWithReply { work, span, answer, wiper }),
            control: control.clone(),
            state_entered,
            timing: JobTiming::default(),
        };
        let place = self.shared.state.lock().queue.enqueue(job, Instant::now());
        self.shared.notify(place);
        JobTicket { receiver, control, waker }
    }

    pub fn queued(&self) -> usize {
        self.shared.state.lock().queue.ready.len()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.job_is_ready.notify_all();
        self.shared.job_is_computed.notify_all();
    }
}

impl SchedulerShared {
    /// Wakes a thread for a job.
    fn notify(&self, place: JobPlace) {
        match place {
            JobPlace::Parked => {}
            JobPlace::Ready => {
                self.ready_count.fetch_add(1, Ordering::Release);
                self.job_is_ready.notify_one();
            }
            JobPlace::Computed => {
                self.job_is_computed.notify_one();
            }
        }
    }

    /// Runs the last steps of jobs whose results have been computed.
    fn deliver(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            let Some(mut job) = state.queue.computed.pop_front() else {
                self.job_is_computed.wait(&mut state);
                continue;
            };
            let owner = job.owner;
            let deliver = move || {
                job.timing.queue += job.state_entered.elapsed();
                let SteppedJob { is_done, charged } = job.job.step(&job.control, job.timing);
                if !is_done {
                    job.job.fail(Error::internal("a computed job has not ended"));
                }
                charged
            };
            let charged = MutexGuard::unlocked(&mut state, deliver);
            state.queue.charge(&owner, charged);
        }
    }

    fn run_worker(&self) {
        let mut state = self.state.lock();
        let mut has_polled = true;
        while !state.is_closed {
            let Some(PickedJob { mut job, by }) = state.queue.pick(Instant::now()) else {
                if has_polled {
                    self.job_is_ready.wait(&mut state);
                } else {
                    let count = || self.ready_count.load(Ordering::Acquire);
                    let before = count();
                    let poll = || self.busy_poll.wait(|| count() != before);
                    MutexGuard::unlocked(&mut state, poll);
                    has_polled = true;
                }
                continue;
            };
            has_polled = false;
            drop(state);
            let begun = Instant::now();
            job.timing.queue += begun - job.state_entered;
            let SteppedJob { mut is_done, charged } = job.job.step(&job.control, job.timing);
            job.state_entered = Instant::now();
            let run = job.state_entered - begun;
            job.timing.run += run;
            state = self.state.lock();
            state.queue.end_piece(&job.owner, by, run, charged);
            // Checked under the lock: a later cancellation finds the job where it was placed.
            if !is_done && let Err(error) = job.control.check() {
                job.job.fail(error.into());
                is_done = true;
            }
            if is_done {
                MutexGuard::unlocked(&mut state, || drop(job));
            } else {
                let place = state.queue.enqueue(job, Instant::now());
                // This thread takes a ready one itself.
                if place == JobPlace::Computed {
                    self.notify(place);
                }
            }
        }
    }

    /// Reschedules a waiting job: its data may have arrived, or it may be cancelled, or another job
    /// may do its work.
    fn wake(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(mut job) = state.queue.remove_stopped(number) {
            drop(state);
            job.job.fail(job.control.check().err().map_or(Error::CANCELLED, Error::from));
        } else if let Some(job) = state.queue.parked.remove(&number) {
            let place = state.queue.enqueue(job, Instant::now());
            drop(state);
            // A piece takes many messages: only the last one wakes a thread.
            self.notify(place);
        } else {
            state.queue.park_unready(number, Instant::now());
        }
    }
}

#[derive(Clone)]
pub struct JobWaker {
    shared: Weak<SchedulerShared>,
    number: u64,
}

impl JobWaker {
    /// Makes the scheduler check again whether the job is ready. Does nothing if it has ended.
    pub fn wake(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.wake(self.number);
        }
    }
}

/// A future of the job's result. Dropping it cancels the job.
pub struct JobTicket<T> {
    receiver: oneshot::Receiver<Result<FinishedJob<T>>>,
    control: JobControl,
    waker: JobWaker,
}

impl<T> Future for JobTicket<T> {
    type Output = Result<FinishedJob<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.receiver).poll(context);
        answer.map(|answer| answer.unwrap_or(Err(Error::CANCELLED)))
    }
}

impl<T> Drop for JobTicket<T> {
    fn drop(&mut self) {
        self.control.cancel();
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests;
