//! Many clients at once, of mixed sizes and operations, some of which give up or ask for what is
//! refused: no error but the promised ones, no wrong result, and nothing left behind.
//!
//! `CAPSTAN_LOAD_SECONDS` is how long it goes on, 10 without.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
mod live;
mod work;

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use capstan::{
    client::{Client, GetInfoResponse},
    server::Settings,
};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{runtime::Runtime, time::sleep};
use work::{Done, Known, Worker};

static KNOWN: LazyLock<Known> = LazyLock::new(Known::new);

const CLIENTS: u64 = 64;
/// Longer than any call takes on two busy cores; only against hanging.
const HANGING: Duration = Duration::from_secs(60);
/// A result that was kept for a client which gave up at that very moment stays as long.
const UPLOAD_TTL: Duration = Duration::from_secs(10);
/// How long the server has to clear up, idle threads included (tokio keeps them for 10 s).
const SETTLING: Duration = Duration::from_secs(25);
/// How long clients go on where they have not yet done all that there is to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the heap may grow by between the middle and the end: queues and tables keep their room.
const GROWTH_BYTES: isize = 8 << 20;

/// What this process, server and clients, holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    heap_bytes: isize,
    threads: usize,
    descriptors: usize,
}

impl Held {
    fn now() -> Self {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        let (threads, descriptors) = (count("/proc/self/task"), count("/proc/self/fd"));
        Self { heap_bytes: live::bytes(), threads, descriptors }
    }

    /// No more than `before`.
    fn is_as(&self, before: &Self) -> bool {
        self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.heap_bytes <= before.heap_bytes + GROWTH_BYTES
    }
}

fn is_idle(info: &GetInfoResponse) -> bool {
    let load = info.load.as_ref().unwrap();
    load.jobs == 0 && load.bytes_in_flight == 0
}

/// Waits until the server holds nothing for anybody: uploads count as bytes in flight.
async fn settle(client: &Client) {
    let begun = Instant::now();
    loop {
        let info = client.info().await.unwrap();
        if is_idle(&info) {
            println!("nothing left after {} ms", begun.elapsed().as_millis());
            return;
        }
        assert!(begun.elapsed() < SETTLING, "left behind: {:?}", info.load);
        sleep(Duration::from_millis(50)).await;
    }
}

/// How often clients did what.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<Done, u64>>);

impl Tally {
    fn count(&self, done: Done) {
        *self.0.lock().unwrap().entry(done).or_default() += 1;
    }

    fn is_whole(&self) -> bool {
        self.0.lock().unwrap().len() == Done::KINDS
    }
}

/// All workers, for `duration`, and on until each kind of call was made.
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
                    || !tally.is_whole() && begun.elapsed() < duration + PATIENCE
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

/// Waits until no more is held than was `before`: threads that are idle end, sockets are closed.
async fn until_as(before: Held) {
    let begun = Instant::now();
    loop {
        let after = Held::now();
        if after.is_as(&before) {
            println!("in the middle: {before:?}\nat the end:    {after:?}");
            return;
        }
        assert!(begun.elapsed() < SETTLING, "more is held: {before:?}, then {after:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn many_clients_get_right_answers_and_leave_nothing_behind() {
    let seconds = std::env::var("CAPSTAN_LOAD_SECONDS").ok();
    let seconds = seconds.map_or(10.0, |seconds| seconds.parse::<f64>().expect("seconds"));
    let half = Duration::from_secs_f64(seconds / 2.0);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let unix_target = format!("unix:{}", socket.display());
    let settings =
        Settings { unix_socket: Some(socket), upload_ttl: UPLOAD_TTL, ..Settings::default() };
    let server = common::serve(settings);
    let known: &'static Known = &KNOWN;
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
        settle(&observer).await;
        let middle = Held::now();
        let workers = run(workers, half, &tally).await;
        settle(&observer).await;
        println!("{seconds} s of {CLIENTS} clients: {:?}", tally.0.lock().unwrap());
        assert!(tally.is_whole(), "every kind of call was made: {:?}", tally.0.lock().unwrap());
        until_as(middle).await;
        drop(workers);
    });
}
