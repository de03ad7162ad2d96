//! Worker threads that run jobs piece by piece.
//!
//! A job is asked for its next piece only when the data for it is there, so a slow sender holds no
//! worker, and between two pieces a worker turns to whichever ready job is most urgent, so a small
//! job does not wait for a large one to end. Cancelled jobs leave between pieces.

use std::{
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    buffer::bury,
    engine::Control,
    error::{Error, Result},
};

/// A job without a deadline is as urgent as one with this much time left, so that neither kind can
/// starve the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a job does, cut into pieces.
pub trait Work: Send + 'static {
    /// What it gives in the end.
    type Output: Send + 'static;

    /// True where [`Work::step`] has something to do, an error to report included.
    fn ready(&self) -> bool;

    /// Does one piece; `Some` with the last. Called on a worker thread.
    fn step(&mut self, control: &Control) -> Result<Option<Self::Output>>;
}

/// Where a job's time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Ready and waiting for a worker.
    pub queue: Duration,
    /// On a worker.
    pub run: Duration,
}

/// The queue and its workers. Dropping it ends the threads after their current pieces.
pub struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Ready jobs, most urgent first.
    ready: BTreeMap<(Instant, u64), Job>,
    /// Jobs that wait for data.
    parked: HashMap<u64, Job>,
    /// Where in `ready` a job is.
    urgency: HashMap<u64, Instant>,
    next: u64,
    closed: bool,
}

struct Job {
    number: u64,
    run: Box<dyn Run>,
    control: Control,
    /// When it was submitted, left a worker, or became ready: whichever was last.
    since: Instant,
    spent: Spent,
}

/// [`Work`] with its answer channel.
trait Run: Send {
    fn ready(&self) -> bool;
    /// True when the answer has been sent.
    fn step(&mut self, control: &Control, spent: Spent) -> bool;
    fn fail(&mut self, error: Error);
}

struct Answering<W: Work> {
    work: W,
    answer: Option<oneshot::Sender<Result<(W::Output, Spent)>>>,
}

impl<W: Work> Run for Answering<W> {
    fn ready(&self) -> bool {
        self.work.ready()
    }

    fn step(&mut self, control: &Control, spent: Spent) -> bool {
        let begun = Instant::now();
        let step = || control.check().and_then(|()| self.work.step(control));
        let result = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(None)) => return false,
            Ok(Ok(Some(output))) => {
                Ok((output, Spent { run: spent.run + begun.elapsed(), ..spent }))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Internal("a job panicked".into())),
        };
        self.send(result);
        true
    }

    fn fail(&mut self, error: Error) {
        self.send(Err(error));
    }
}

impl<W: Work> Answering<W> {
    fn send(&mut self, result: Result<(W::Output, Spent)>) {
        if let Some(answer) = self.answer.take() {
            // The caller may have gone: then nobody wants the answer.
            let _gone = answer.send(result);
        }
    }
}

impl Scheduler {
    /// Starts `workers` threads.
    ///
    /// Errors: `Internal` where the system gives no threads.
    pub fn new(workers: usize) -> Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        for index in 0..workers.max(1) {
            let shared = shared.clone();
            thread::Builder::new()
                .name(format!("capstan-worker-{index}"))
                .spawn(move || shared.serve())
                .map_err(|error| Error::Internal(format!("cannot start a worker: {error}")))?;
        }
        Ok(Self { shared })
    }

    /// Queues a job. `work` is made with a [`Wake`], to be called when data for it has come.
    /// Dropping the ticket cancels the job.
    pub fn submit<W: Work>(
        &self,
        control: Control,
        work: impl FnOnce(Wake) -> W,
    ) -> Ticket<W::Output> {
        let (sender, receiver) = oneshot::channel();
        let now = Instant::now();
        let number = {
            let mut state = self.shared.state();
            state.next += 1;
            state.next
        };
        let wake = Wake { shared: Arc::downgrade(&self.shared), number };
        let run = Box::new(Answering { work: work(wake.clone()), answer: Some(sender) });
        let spent = Spent::default();
        let job = Job { number, run, control: control.clone(), since: now, spent };
        let mut state = self.shared.state();
        state.place(job);
        drop(state);
        self.shared.work.notify_one();
        Ticket { receiver, control, wake }
    }

    /// Jobs that are ready and wait for a worker.
    pub fn queued(&self) -> usize {
        self.shared.state().ready.len()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
    }
}

impl State {
    /// Files a job that is on no worker under ready or parked.
    fn place(&mut self, mut job: Job) {
        if job.run.ready() {
            let deadline = job.control.deadline();
            let patience = job.since + PATIENCE;
            let urgency = deadline.map_or(patience, |deadline| deadline.min(patience));
            job.since = Instant::now();
            self.urgency.insert(job.number, urgency);
            self.ready.insert((urgency, job.number), job);
        } else {
            self.parked.insert(job.number, job);
        }
    }

    /// Takes a waiting job out, if it is to stop.
    fn remove_stopped(&mut self, number: u64) -> Option<Job> {
        let urgency = self.urgency.get(&number).copied();
        let job = match urgency {
            Some(urgency) => self.ready.get(&(urgency, number)),
            None => self.parked.get(&number),
        };
        job.filter(|job| job.control.check().is_err())?;
        self.urgency.remove(&number);
        match urgency {
            Some(urgency) => self.ready.remove(&(urgency, number)),
            None => self.parked.remove(&number),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.state();
        while !state.closed {
            let Some((_, mut job)) = state.ready.pop_first() else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.urgency.remove(&job.number);
            drop(state);
            let begun = Instant::now();
            job.spent.queue += begun - job.since;
            let mut done = job.run.step(&job.control, job.spent);
            job.since = Instant::now();
            job.spent.run += job.since - begun;
            if !done && let Err(error) = job.control.check() {
                job.run.fail(error);
                done = true;
            }
            if done {
                drop(job);
                state = self.state();
            } else {
                state = self.state();
                state.place(job);
            }
        }
    }

    /// Looks at a job anew: its data may have come, or it may have been cancelled.
    fn wake(&self, number: u64) {
        let mut state = self.state();
        if let Some(mut job) = state.remove_stopped(number) {
            drop(state);
            job.run.fail(job.control.check().err().unwrap_or(Error::Cancelled));
            bury(job);
        } else if let Some(job) = state.parked.remove(&number) {
            state.place(job);
            drop(state);
            self.work.notify_one();
        }
    }
}

/// Tells the scheduler that something happened to a job.
#[derive(Clone)]
pub struct Wake {
    shared: Weak<Shared>,
    number: u64,
}

impl Wake {
    /// Has the scheduler look at the job anew. Does nothing for a job that has ended.
    pub fn wake(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.wake(self.number);
        }
    }
}

/// The answer to come. Dropping it cancels the job.
pub struct Ticket<T> {
    receiver: oneshot::Receiver<Result<(T, Spent)>>,
    control: Control,
    wake: Wake,
}

impl<T> Future for Ticket<T> {
    type Output = Result<(T, Spent)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.receiver).poll(context);
        answer.map(|answer| answer.unwrap_or(Err(Error::Cancelled)))
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.control.cancel();
        self.wake.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Counts its pieces down, when it is allowed to.
    struct Countdown {
        pieces: usize,
        open: Arc<AtomicBool>,
        dropped: Arc<AtomicUsize>,
    }

    impl Work for Countdown {
        type Output = &'static str;

        fn ready(&self) -> bool {
            self.open.load(Ordering::SeqCst)
        }

        fn step(&mut self, _: &Control) -> Result<Option<Self::Output>> {
            assert!(self.pieces > 0, "stepped after the end");
            self.pieces -= 1;
            Ok((self.pieces == 0).then_some("done"))
        }
    }

    impl Drop for Countdown {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Fixture {
        open: Arc<AtomicBool>,
        dropped: Arc<AtomicUsize>,
    }

    impl Fixture {
        fn new(open: bool) -> Self {
            Self { open: Arc::new(AtomicBool::new(open)), dropped: Arc::default() }
        }

        fn countdown(&self, pieces: usize) -> Countdown {
            Countdown { pieces, open: self.open.clone(), dropped: self.dropped.clone() }
        }
    }

    #[tokio::test]
    async fn a_parked_job_runs_when_woken() {
        let (scheduler, fixture) = (Scheduler::new(2).unwrap(), Fixture::new(false));
        let mut wake = None;
        let ticket = scheduler.submit(Control::default(), |handle| {
            wake = Some(handle);
            fixture.countdown(3)
        });
        fixture.open.store(true, Ordering::SeqCst);
        wake.unwrap().wake();
        assert_eq!(ticket.await.unwrap().0, "done");
        assert_eq!(fixture.dropped.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_panic_fails_one_job_and_the_next_one_runs() {
        let (scheduler, fixture) = (Scheduler::new(1).unwrap(), Fixture::new(true));
        let bad = scheduler.submit(Control::default(), |_| fixture.countdown(0));
        assert!(matches!(bad.await, Err(Error::Internal(_))));
        let good = scheduler.submit(Control::default(), |_| fixture.countdown(2));
        assert_eq!(good.await.unwrap().0, "done");
    }

    #[tokio::test]
    async fn dropping_the_ticket_or_passing_the_deadline_frees_a_parked_job() {
        let (scheduler, fixture) = (Scheduler::new(1).unwrap(), Fixture::new(false));
        drop(scheduler.submit(Control::default(), |_| fixture.countdown(1)));
        let past = Control::new(Some(Instant::now()));
        let mut wake = None;
        let late = scheduler.submit(past, |handle| {
            wake = Some(handle);
            fixture.countdown(1)
        });
        wake.unwrap().wake();
        assert!(matches!(late.await, Err(Error::Deadline)));
        for _ in 0..500 {
            if fixture.dropped.load(Ordering::SeqCst) == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the jobs were not freed");
    }

    /// Writes its name at each piece; waits in the first one until both jobs are queued.
    struct Scribe(char, usize, Arc<(Mutex<String>, AtomicBool)>);

    impl Work for Scribe {
        type Output = ();

        fn ready(&self) -> bool {
            true
        }

        fn step(&mut self, _: &Control) -> Result<Option<()>> {
            while !self.2.1.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            self.2.0.lock().unwrap().push(self.0);
            self.1 -= 1;
            Ok((self.1 == 0).then_some(()))
        }
    }

    #[tokio::test]
    async fn jobs_take_turns_and_an_early_deadline_goes_first() {
        let scheduler = Scheduler::new(1).unwrap();
        let log = Arc::new((Mutex::new(String::new()), AtomicBool::new(false)));
        let patient = [('a', 3), ('b', 3)].map(|(name, n)| {
            scheduler.submit(Control::default(), |_| Scribe(name, n, log.clone()))
        });
        let soon = Control::new(Some(Instant::now() + Duration::from_secs(4)));
        let urgent = scheduler.submit(soon, |_| Scribe('u', 2, log.clone()));
        log.1.store(true, Ordering::SeqCst);
        urgent.await.unwrap();
        for ticket in patient {
            ticket.await.unwrap();
        }
        // Which one the worker began with before the rest was queued is open.
        let order = log.0.lock().unwrap().clone();
        assert!(["auubabab", "uuababab", "uaubabab"].contains(&order.as_str()), "{order}");
    }
}
