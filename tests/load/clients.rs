//! The clients of a load test.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::work::{Outcome, Worker};

/// How much load a test makes.
#[derive(Debug, Clone, Copy)]
pub struct LoadSize {
    pub clients: u64,
    /// The least duration of each of two halves.
    pub half: Duration,
    /// The least number of calls of each client in a half: enough for queues and buffers to grow,
    /// even if a busy host is slow.
    pub calls_min: usize,
    /// See [`Worker`].
    pub unusual_percent: u32,
}

impl LoadSize {
    /// A load of many clients. The variable `setting` has its seconds; without it, `default`.
    pub fn long(setting: &str, default: f64, unusual_percent: u32) -> Self {
        let seconds = std::env::var(setting).ok();
        let seconds = seconds.map_or(default, |text| text.parse().expect("seconds"));
        let half = Duration::from_secs_f64(seconds / 2.0);
        Self { clients: 64, half, calls_min: 20, unusual_percent }
    }
}

/// A timeout per call that only a hang reaches, even on two cores that many processes share.
pub const HANGING: Duration = Duration::from_secs(300);
/// How much longer clients run if some kind of call has not been made yet.
const EXTRA_DURATION_MAX: Duration = Duration::from_secs(120);

/// Counts calls by outcome.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<Outcome, u64>>);

impl Tally {
    fn count(&self, done: Outcome) {
        *self.0.lock().unwrap().entry(done).or_default() += 1;
    }

    pub fn is_complete(&self) -> bool {
        self.0.lock().unwrap().len() == Outcome::KINDS
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.lock().unwrap())
    }
}

/// Runs all workers for one half of the load, and longer until each has made enough calls and each
/// outcome has occurred.
pub async fn run(
    workers: Vec<Worker<'static>>,
    size: LoadSize,
    tally: &Arc<Tally>,
) -> Vec<Worker<'static>> {
    let begun = Instant::now();
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let tally = tally.clone();
            tokio::spawn(async move {
                let mut calls = 0;
                while calls < size.calls_min
                    || begun.elapsed() < size.half
                    || !tally.is_complete() && begun.elapsed() < size.half + EXTRA_DURATION_MAX
                {
                    calls += 1;
                    let step = tokio::time::timeout(HANGING, worker.step()).await;
                    let step = step.unwrap_or_else(|_| panic!("client {} hangs", worker.number));
                    let number = worker.number;
                    match step {
                        Ok(outcome) => tally.count(outcome),
                        // Refused as promised: two killed workers had the call.
                        Err(error) if error.reason_text() == "LOST_TWICE" => {}
                        Err(error) => panic!("client {number}, {}: {error}", worker.call),
                    }
                }
                worker
            })
        })
        .collect();
    let mut workers = Vec::new();
    for task in tasks {
        workers.push(task.await.unwrap());
    }
    workers
}
