//! Many clients at once, of mixed sizes and operations, some of which give up or ask for what is
//! refused: no error but the promised ones, no wrong result, and nothing left behind.
//!
//! `CAPSTAN_LOAD_SECONDS` is how long it goes on, 10 without.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
mod work;

use std::{
    collections::BTreeMap,
    fs,
    sync::LazyLock,
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
/// What memory may grow by between the middle and the end: allocators keep some.
const GROWTH_KIB: u64 = 64 << 10;

/// What this process, server and clients, holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    rss_kib: u64,
    threads: u64,
    descriptors: usize,
}

fn held() -> Held {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    Held { rss_kib: field("VmRSS:"), threads: field("Threads:"), descriptors }
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

/// All workers, for `duration`; how often they did what.
async fn run(
    workers: Vec<Worker<'static>>,
    duration: Duration,
    done: &mut BTreeMap<Done, u64>,
) -> Vec<Worker<'static>> {
    let end = Instant::now() + duration;
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            tokio::spawn(async move {
                let mut done = Vec::new();
                while Instant::now() < end {
                    let step = tokio::time::timeout(HANGING, worker.step()).await;
                    let step = step.unwrap_or_else(|_| panic!("client {} hangs", worker.number));
                    let number = worker.number;
                    done.push(step.unwrap_or_else(|error| panic!("client {number}: {error}")));
                }
                (worker, done)
            })
        })
        .collect();
    let mut workers = Vec::new();
    for task in tasks {
        let (worker, steps) = task.await.unwrap();
        workers.push(worker);
        steps.into_iter().for_each(|step| *done.entry(step).or_default() += 1);
    }
    workers
}

/// Waits for idle threads to end, then holds what is there against what was.
async fn compare(before: Held) {
    let begun = Instant::now();
    while held().threads > before.threads && begun.elapsed() < SETTLING {
        sleep(Duration::from_millis(100)).await;
    }
    let after = held();
    println!("in the middle: {before:?}\nat the end:    {after:?}");
    assert!(after.threads <= before.threads, "threads: {before:?}, then {after:?}");
    assert!(after.descriptors <= before.descriptors, "files: {before:?}, then {after:?}");
    assert!(after.rss_kib <= before.rss_kib + GROWTH_KIB, "memory: {before:?}, then {after:?}");
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
        let mut done = BTreeMap::new();
        let workers = run(workers, half, &mut done).await;
        settle(&observer).await;
        let middle = held();
        let workers = run(workers, half, &mut done).await;
        settle(&observer).await;
        println!("{seconds} s of {CLIENTS} clients: {done:?}");
        assert_eq!(done.len(), 5, "every kind of call was made: {done:?}");
        compare(middle).await;
        drop(workers);
    });
}
