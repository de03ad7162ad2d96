//! Queries of devices, shared by calls.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    task::spawn_blocking,
    time::{Instant, timeout},
};

use crate::{
    error::{Error, Result},
    exec::Executor,
};

/// Limit on the wait for readings of devices: a worker that hangs is lost only after 20 seconds.
pub const READINGS_WAIT: Duration = Duration::from_millis(500);

/// Asks devices for a `T`, one query at a time, however many calls ask: NVML takes milliseconds per
/// GPU, and a worker answers one question after the other.
pub struct DeviceQuery<T> {
    shared: Arc<QueryState<T>>,
    /// Held during a query, to its end, also if the call is cancelled.
    turn: Arc<AsyncMutex<()>>,
}

type Ask<T> = dyn Fn(&dyn Executor) -> T + Send + Sync;

struct QueryState<T> {
    ask: Box<Ask<T>>,
    times: Mutex<QueryTimes<T>>,
}

struct QueryTimes<T> {
    /// When the query that is under way began.
    begun: Option<Instant>,
    last: Option<DeviceAnswer<T>>,
}

struct DeviceAnswer<T> {
    /// When the query began.
    begun: Instant,
    answer: T,
}

impl<T: Clone + Send + 'static> DeviceQuery<T> {
    pub fn new(ask: impl Fn(&dyn Executor) -> T + Send + Sync + 'static) -> Self {
        let times = Mutex::new(QueryTimes { begun: None, last: None });
        Self { shared: Arc::new(QueryState { ask: Box::new(ask), times }), turn: Arc::default() }
    }

    /// The answer at this call, or later. Calls that arrive during a query share the next one.
    pub async fn query(&self, executor: Arc<dyn Executor>) -> Result<T> {
        let arrived = Instant::now();
        let turn = self.turn.clone().lock_owned().await;
        if let Some(shared) = self.answer_since(arrived) {
            return Ok(shared);
        }
        let state = self.shared.clone();
        state.times.lock().begun = Some(Instant::now());
        let query = spawn_blocking(move || state.ask(&*executor, turn));
        query.await.map_err(|_| Error::internal("querying the devices panicked"))
    }

    /// Like [`Self::query`]; `None` if there is no answer within `wait`. While an earlier query has
    /// taken longer than that, nobody waits.
    pub async fn query_within(&self, wait: Duration, executor: Arc<dyn Executor>) -> Option<T> {
        if self.turn.try_lock().is_err() && self.shared.has_begun_before(wait) {
            return None;
        }
        timeout(wait, self.query(executor)).await.ok()?.ok()
    }

    /// The last answer, however old it is.
    pub fn last(&self) -> Option<T> {
        self.shared.times.lock().last.as_ref().map(|last| last.answer.clone())
    }

    fn answer_since(&self, time: Instant) -> Option<T> {
        let times = self.shared.times.lock();
        times.last.as_ref().filter(|last| last.begun > time).map(|last| last.answer.clone())
    }
}

impl<T: Clone> QueryState<T> {
    fn ask(&self, executor: &dyn Executor, _turn: OwnedMutexGuard<()>) -> T {
        let begun = Instant::now();
        let answer = (self.ask)(executor);
        let last = Some(DeviceAnswer { begun, answer: answer.clone() });
        *self.times.lock() = QueryTimes { begun: None, last };
        answer
    }

    /// Whether the query that is under way began longer ago than `time`.
    fn has_begun_before(&self, time: Duration) -> bool {
        self.times.lock().begun.is_some_and(|begun| begun.elapsed() > time)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    };

    use super::*;
    use crate::{engine::cpu::CpuEngine, exec::HostExecutor};

    /// Too long to be reached.
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_device_that_hangs_delays_no_one_for_longer_than_the_wait() {
        let engine = Arc::new(CpuEngine::new(1).unwrap());
        let executor: Arc<dyn Executor> = Arc::new(HostExecutor { engine, oracle: None });
        let (go_on, gate) = mpsc::channel();
        let gate = Mutex::new(gate);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        // Each answer waits for a number.
        let query = DeviceQuery::new(move |_| {
            count.fetch_add(1, Relaxed);
            gate.lock().recv().unwrap()
        });
        go_on.send(1).unwrap();
        assert_eq!(query.query_within(LONG, executor.clone()).await, Some(1));
        let short = Duration::from_millis(1);
        assert_eq!(query.query_within(short, executor.clone()).await, None);
        // Its thread may start late; calls that arrive before that share its answer.
        while asked.load(Relaxed) < 2 || !query.shared.has_begun_before(short) {
            tokio::task::yield_now().await;
        }
        assert_eq!(query.query_within(short, executor.clone()).await, None);
        assert_eq!(query.last(), Some(1));
        go_on.send(2).unwrap();
        go_on.send(3).unwrap();
        let after = query.query(executor.clone()).await;
        assert_eq!(after, Ok(3), "the next answer");
    }
}
