//! Many concurrent clients with mixed sizes and operations; some cancel calls or send invalid ones.
//! Every error is a promised one, every result is correct, and nothing is left behind.
//!
//! `CAPSTAN_LOAD_SECONDS` sets the duration of the sweep; the default is 10.
#![cfg(all(feature = "client", feature = "server"))]

mod clients;
#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
mod heap;
#[path = "../common/idle.rs"]
mod idle;
mod product;
mod server;
#[path = "../common/sweep.rs"]
mod sweep;
mod work;

use std::{
    fs,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use capstan::{client::Client, server::ServerSettings};
use clients::{LoadSize, Tally, run};
use idle::until_idle;
use rand::{SeedableRng, rngs::StdRng};
use server::{IDLE_THREAD_MAX, LoadedServer, runtime};
use tokio::time::sleep;
use work::{Expected, Sizes, Worker, release_left_behind};

/// For an engine on the CPU. The last ones exceed a message, so they are streamed, vectors over two
/// connections.
const LARGE: Sizes = Sizes {
    g1_points: 4096,
    g2_points: 256,
    g1_msms: &[(1, 1), (7, 1), (100, 1), (64, 5), (1024, 1), (4096, 1), (4096, 9)],
    g2_msms: &[(1, 1), (33, 1), (256, 1)],
    ntts_lg: &[0, 1, 5, 10, 13, 16, 17],
    products: &[1, 100, 1024, 40_000],
    vectors_lg: &[0, 1, 5, 10, 13, 16, 17],
};

static KNOWN: LazyLock<Expected> = LazyLock::new(|| Expected::new(&LARGE));

/// How long the server keeps a result whose client cancelled just as it was stored.
const UPLOAD_TTL: Duration = Duration::from_secs(10);
/// How long the server may take to free everything, idle threads included.
const SETTLING: Duration = Duration::from_secs(25);
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
        self.has_threads_and_files_of(before) && self.heap_bytes <= before.heap_bytes + GROWTH_BYTES
    }

    fn has_threads_and_files_of(&self, before: &Self) -> bool {
        self.threads <= before.threads && self.descriptors <= before.descriptors
    }
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

/// What is held once sockets are closed and idle threads have ended: once their numbers have not
/// changed for twice the lifetime of an idle thread.
async fn settled() -> Resources {
    let (mut last, mut since) = (Resources::now(), Instant::now());
    while since.elapsed() < 2 * IDLE_THREAD_MAX {
        sleep(Duration::from_millis(20)).await;
        let now = Resources::now();
        if (now.threads, now.descriptors) != (last.threads, last.descriptors) {
            since = Instant::now();
        }
        last = now;
    }
    last
}

/// Makes a load of two halves.
fn clients_get_correct_results_and_leave_nothing_behind(size: LoadSize) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let unix_target = format!("unix:{}", socket.display());
    let settings = ServerSettings {
        unix_socket: Some(socket),
        upload_ttl: UPLOAD_TTL,
        ..ServerSettings::default()
    };
    let server = LoadedServer::start(settings);
    let known: &'static Expected = &KNOWN;
    runtime().block_on(async {
        let observer = Client::builder(&server.target).connections(1).connect().await.unwrap();
        let (tally, mut middle) = (Arc::new(Tally::default()), None);
        for half_number in 0..2 {
            let mut workers = Vec::new();
            for number in 0..size.clients {
                let target = if number % 2 == 0 { &server.target } else { &unix_target };
                let client = Client::builder(target).connections(2).connect().await.unwrap();
                let rng = StdRng::seed_from_u64(half_number * size.clients + number);
                let mut worker = Worker::new(known, client, rng, number).await;
                worker.unusual_percent = size.unusual_percent;
                workers.push(worker);
            }
            // Clients keep buffers as long as they live, so they end before memory is compared.
            drop(run(workers, size, &tally).await);
            release_left_behind(&observer).await;
            // Vectors that clients left behind expire.
            until_idle(&observer).await;
            match middle {
                None => middle = Some(settled().await),
                Some(middle) => until_within(middle).await,
            }
        }
        println!("{size:?}: {tally}");
        assert!(tally.is_complete(), "some outcomes never occurred: {tally}");
    });
}

#[test]
fn many_clients_get_correct_results_and_leave_nothing_behind() {
    let half = Duration::from_millis(500);
    let size = LoadSize { clients: 8, half, calls_min: 15, unusual_percent: 6 };
    clients_get_correct_results_and_leave_nothing_behind(size);
}

#[test]
#[ignore = "sweep"]
fn a_long_load_of_many_clients_leaves_nothing_behind() {
    if !sweep::is_chosen("a long load") {
        return;
    }
    let size = LoadSize::long("CAPSTAN_LOAD_SECONDS", 10.0, 1);
    clients_get_correct_results_and_leave_nothing_behind(size);
}
