//! Many concurrent clients with mixed sizes and operations; some cancel calls or send invalid ones.
//! Every error is a promised one, every result is correct, and nothing is left behind.
//!
//! `CAPSTAN_LOAD_SECONDS` sets the duration; the default is 10.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
mod heap;
#[path = "../common/idle.rs"]
mod idle;
mod product;
mod work;

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use capstan::{client::Client, server::ServerSettings};
use idle::until_idle;
use rand::{SeedableRng, rngs::StdRng};
use tokio::{runtime::Runtime, time::sleep};
use work::{Expected, Outcome, Worker};

static KNOWN: LazyLock<Expected> = LazyLock::new(Expected::new);

const CLIENTS: u64 = 64;
/// A timeout per call that only a hang reaches, even on two busy cores.
const HANGING: Duration = Duration::from_secs(60);
/// How long the server keeps a result whose client cancelled just as it was stored.
const UPLOAD_TTL: Duration = Duration::from_secs(10);
/// How long the server may take to free everything, idle threads included (tokio: 10 s).
const SETTLING: Duration = Duration::from_secs(25);
/// How much longer clients run if some kind of call has not been made yet.
const EXTRA_DURATION_MAX: Duration = Duration::from_secs(120);
/// Allowed heap growth between middle and end: queues and tables keep their capacity.
const GROWTH_BYTES: isize = 8 << 20;

/// Resources of this process, which runs the server and the clients.
#[derive(Debug, Clone, Copy)]
struct Resources {
    heap_bytes: isize,
    threads: usize,
    descriptors: usize,
}

impl Resources {
    fn now() -> Self {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        let (threads, descriptors) = (count("/proc/self/task"), count("/proc/self/fd"));
        Self { heap_bytes: heap::bytes(), threads, descriptors }
    }

    /// Whether nothing has grown since `before`; the heap may grow by [`GROWTH_BYTES`].
    fn is_within(&self, before: &Self) -> bool {
        self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.heap_bytes <= before.heap_bytes + GROWTH_BYTES
    }
}

/// Counts calls by outcome.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<Outcome, u64>>);

impl Tally {
    fn count(&self, done: Outcome) {
        *self.0.lock().unwrap().entry(done).or_default() += 1;
    }

    fn is_complete(&self) -> bool {
        self.0.lock().unwrap().len() == Outcome::KINDS
    }
}

/// Runs all workers for `duration`, and longer until each outcome has occurred.
async fn run(
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
                while begun.elapsed() < duration
                    || !tally.is_complete() && begun.elapsed() < duration + EXTRA_DURATION_MAX
                {
                    let step = tokio::time::timeout(HANGING, worker.step()).await;
                    let step = step.unwrap_or_else(|_| panic!("client {} hangs", worker.number));
                    let number = worker.number;
                    tally.count(step.unwrap_or_else(|error| panic!("client {number}: {error}")));
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

/// Waits until no more is held than `before`: idle threads end and sockets close.
async fn until_within(before: Resources) {
    let begun = Instant::now();
    loop {
        let after = Resources::now();
        if after.is_within(&before) {
            println!("in the middle: {before:?}\nat the end:    {after:?}");
            return;
        }
        assert!(begun.elapsed() < SETTLING, "held {before:?}, now {after:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn many_clients_get_correct_results_and_leave_nothing_behind() {
    let seconds = std::env::var("CAPSTAN_LOAD_SECONDS").ok();
    let seconds = seconds.map_or(10.0, |seconds| seconds.parse::<f64>().expect("seconds"));
    let half = Duration::from_secs_f64(seconds / 2.0);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let unix_target = format!("unix:{}", socket.display());
    let settings = ServerSettings {
        unix_socket: Some(socket),
        upload_ttl: UPLOAD_TTL,
        ..ServerSettings::default()
    };
    let server = common::serve(settings);
    let known: &'static Expected = &KNOWN;
    Runtime::new().unwrap().block_on(async {
        let mut workers = Vec::new();
        for number in 0..CLIENTS {
            let target = if number % 2 == 0 { &server.target } else { &unix_target };
            let client = Client::builder(target).connections(2).connect().await.unwrap();
            let rng = StdRng::seed_from_u64(number);
            workers.push(Worker::new(known, client, rng, number).await);
        }
        let observer = Client::builder(&server.target).connections(1).connect().await.unwrap();
        let tally = Arc::new(Tally::default());
        let workers = run(workers, half, &tally).await;
        until_idle(&observer).await;
        let middle = Resources::now();
        let workers = run(workers, half, &tally).await;
        until_idle(&observer).await;
        println!("{seconds} s of {CLIENTS} clients: {:?}", tally.0.lock().unwrap());
        assert!(tally.is_complete(), "some outcomes never occurred: {:?}", tally.0.lock().unwrap());
        until_within(middle).await;
        drop(workers);
    });
}
