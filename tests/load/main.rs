//! Many concurrent clients with mixed sizes and operations; some cancel calls or send invalid ones.
//! Every error is a promised one, every result is correct, and nothing is left behind.
//!
//! `CAPSTAN_LOAD_SECONDS` sets the duration; the default is 10.
#![cfg(all(feature = "client", feature = "server"))]

mod clients;
#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
mod heap;
#[path = "../common/idle.rs"]
mod idle;
mod product;
mod work;

use std::{
    fs,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use capstan::{client::Client, server::ServerSettings};
use clients::{CLIENTS, Tally, run};
use idle::until_idle;
use rand::{SeedableRng, rngs::StdRng};
use tokio::{runtime::Runtime, time::sleep};
use work::{Expected, Sizes, Worker};

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
/// How long the server may take to free everything, idle threads included (tokio: 10 s).
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

/// What is held once sockets are closed, idle threads have ended, and vectors that clients left
/// have expired.
async fn settled() -> Resources {
    sleep(UPLOAD_TTL + Duration::from_secs(2)).await;
    Resources::now()
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
        let observer = Client::builder(&server.target).connections(1).connect().await.unwrap();
        let (tally, mut middle) = (Arc::new(Tally::default()), None);
        for half_number in 0..2 {
            let mut workers = Vec::new();
            for number in 0..CLIENTS {
                let target = if number % 2 == 0 { &server.target } else { &unix_target };
                let client = Client::builder(target).connections(2).connect().await.unwrap();
                let rng = StdRng::seed_from_u64(half_number * CLIENTS + number);
                workers.push(Worker::new(known, client, rng, number).await);
            }
            // Clients keep buffers as long as they live, so they end before memory is compared.
            drop(run(workers, half, &tally).await);
            until_idle(&observer).await;
            match middle {
                None => middle = Some(settled().await),
                Some(middle) => until_within(middle).await,
            }
        }
        println!("{seconds} s of {CLIENTS} clients: {tally}");
        assert!(tally.is_complete(), "some outcomes never occurred: {tally}");
    });
}
