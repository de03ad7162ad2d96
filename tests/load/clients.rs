//! The clients of a load test.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::work::{Outcome, Worker};

pub const CLIENTS: u64 = 64;
/// A timeout per call that only a hang reaches, even on two busy cores.
pub const HANGING: Duration = Duration::from_secs(60);
/// Calls that each client makes at least: enough that queues and buffers have grown, also if a busy
/// host makes few calls in the time.
const CALLS_MIN: usize = 20;
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

/// Runs all workers for `duration`, and longer until each has made [`CALLS_MIN`] calls and each
/// outcome has occurred.
pub async fn run(
    workers: Vec<Worker<'static>>,
    duration: Duration,
    tally: &Arc<Tally>,
) -> Vec<Worker<'static>> {
    let begun = Instant::now();
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let tally = tally.clone();
            tokio::spawn(async move {
                let mut calls = 0;
                while calls < CALLS_MIN
                    || begun.elapsed() < duration
                    || !tally.is_complete() && begun.elapsed() < duration + EXTRA_DURATION_MAX
                {
                    calls += 1;
                    let step = tokio::time::timeout(HANGING, worker.step()).await;
                    let step = step.unwrap_or_else(|_| panic!("client {} hangs", worker.number));
                    let number = worker.number;
                    match step {
                        Ok(outcome) => tally.count(outcome),
                        // Refused as promised: two killed workers had the call.
                        Err(error) if error.reason_text() == "LOST_TWICE" => {}
                        Err(error) => panic!("client {number}: {error}"),
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
