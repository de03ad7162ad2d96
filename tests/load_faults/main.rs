//! The mixed load of several tenants with faults: workers of GPUs are killed, clients vanish in the
//! middle of calls, peers are slow, silent or send garbage. Each call of the other clients still
//! gets the right result, none hangs, and the daemon holds no more at the end than in the middle.
//!
//! The daemon runs in its own process, with the emulated driver if there is no GPU.
//! `CAPSTAN_FAULTS_SECONDS` sets the duration of the sweep; the default is 20.
#![cfg(all(feature = "client", feature = "server"))]

mod child;
#[path = "../load/clients.rs"]
mod clients;
#[path = "../../examples/common/mod.rs"]
#[allow(unused_imports)]
mod common;
#[path = "../common/daemon_process.rs"]
mod daemon_process;
#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../common/idle.rs"]
mod idle;
#[path = "../load/product.rs"]
mod product;
#[path = "../common/sweep.rs"]
mod sweep;
#[path = "../load/work.rs"]
mod work;

use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use capstan::{
    client::UploadKey,
    wire::v1::{
        Chunk, GetRequest, PutRequest, ScalarEncoding, VectorUpload, get_request,
        put_request::Message, store_client::StoreClient,
    },
};
use child::{ChildDaemon, ChildResources, TENANTS};
use clients::{HANGING, LoadSize, Tally, run};
use futures_util::{Stream, StreamExt, stream};
use idle::until_idle;
use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::{Signal, kill_process};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    runtime::Runtime,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::{Request, metadata::AsciiMetadataValue, transport::Endpoint};
use work::{Expected, Sizes, Worker, release_left_behind};

/// Sizes for the emulated driver.
const SMALL: Sizes = Sizes {
    g1_points: 256,
    g2_points: 64,
    g1_msms: &[(1, 1), (7, 1), (100, 1), (64, 5), (256, 1)],
    g2_msms: &[(1, 1), (33, 1), (64, 1)],
    ntts_lg: &[0, 1, 5, 8, 10],
    products: &[1, 100, 300],
    // The last one is streamed over two connections.
    vectors_lg: &[0, 5, 10, 15, 17],
};

static KNOWN: LazyLock<Expected> = LazyLock::new(|| Expected::new(&SMALL));

const GPUS: usize = 2;
/// The number of GPUs whose workers serve.
const USED: &str = r#"capstan_devices{state="used"}"#;

/// The times at which workers are killed. A run must not lose two workers, and a GPU whose workers
/// serve for less than a minute again and again is put into quarantine.
#[derive(Debug, Clone, Copy)]
struct KillTimes {
    /// The number of first kills in a half; `first_pause` is the pause before each.
    first: usize,
    first_pause: Duration,
    /// The pause before each later kill; `None` for no later kills.
    later_pause: Option<Duration>,
}

impl KillTimes {
    /// The pause before kill number `kill`.
    fn pause_before(&self, kill: usize) -> Option<Duration> {
        if kill < self.first { Some(self.first_pause) } else { self.later_pause }
    }
}

const SHORT_KILLS: KillTimes =
    KillTimes { first: 1, first_pause: Duration::from_millis(500), later_pause: None };
const LONG_KILLS: KillTimes = KillTimes {
    first: 4,
    first_pause: Duration::from_secs(4),
    later_pause: Some(Duration::from_secs(35)),
};

const IDLE_TIMEOUT_MS: &str = "5000";

/// Counts of injected faults.
#[derive(Debug, Default)]
struct FaultCounts {
    killed_workers: AtomicU64,
    vanished_clients: AtomicU64,
    /// Calls for which a slow machine lost two workers.
    lost_twice: AtomicU64,
    slow_peers: AtomicU64,
    garbage: AtomicU64,
}

impl FaultCounts {
    /// Whether every kind of fault has occurred. Workers are killed only if `is_killing`.
    fn are_complete(&self, is_killing: bool) -> bool {
        let mut counts = vec![&self.vanished_clients, &self.slow_peers, &self.garbage];
        counts.extend(is_killing.then_some(&self.killed_workers));
        counts.into_iter().all(|count| count.load(Ordering::Relaxed) > 0)
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

struct FaultPlan {
    daemon: Arc<ChildDaemon>,
    kills: KillTimes,
    restarts_before: u64,
    is_over: AtomicBool,
    counts: FaultCounts,
}

impl FaultPlan {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Kills one worker after the other. Each time, waits until all of them serve again.
    async fn kill_workers(self: Arc<Self>) {
        for kill in 0.. {
            let Some(pause) = self.kills.pause_before(kill) else { return };
            let begun = Instant::now();
            while begun.elapsed() < pause {
                if self.is_over() {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
            kill_process(self.daemon.workers()[kill % GPUS], Signal::KILL).unwrap();
            add_one(&self.counts.killed_workers);
            let (begun, restarts) = (Instant::now(), self.restarts_before + kill as u64 + 1);
            while self.daemon.metric("capstan_worker_restarts_total").await < restarts
                || self.daemon.metric(USED).await < GPUS as u64
            {
                assert!(begun.elapsed() < HANGING, "a lost worker is not replaced");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Begins a call on a new connection and drops both at a random time.
    async fn vanish(self: Arc<Self>, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        for life in 0.. {
            if self.is_over() {
                return;
            }
            let client = self.daemon.client(seed).connections(2).connect().await;
            // The last call of an earlier life may still release its bases.
            let number = (seed + 1) * 1_000_000 + life;
            let rng_of_worker = StdRng::seed_from_u64(rng.random());
            let patience = Duration::from_millis(rng.random_range(1..2000));
            let calls = async {
                let mut worker = Worker::new(&KNOWN, client.unwrap(), rng_of_worker, number).await;
                loop {
                    if let Err(error) = worker.valid_call().await {
                        break error;
                    }
                }
            };
            if let Ok(error) = timeout(patience, calls).await {
                assert_eq!(error.reason_text(), "LOST_TWICE", "{error}");
                add_one(&self.counts.lost_twice);
            }
            add_one(&self.counts.vanished_clients);
        }
    }

    /// Uploads a vector far below the minimum rate, and reads one as slowly. The daemon ends both.
    async fn be_slow(self: Arc<Self>) {
        while !self.is_over() {
            let endpoint = Endpoint::from_shared(self.daemon.target()).unwrap();
            let channel = endpoint.initial_stream_window_size(1).connect().await.unwrap();
            let token = format!("Bearer {}", self.daemon.token(0)).parse::<AsciiMetadataValue>();
            let token = token.unwrap();
            let mut store =
                StoreClient::with_interceptor(channel, move |mut request: Request<()>| {
                    request.metadata_mut().insert("authorization", token.clone());
                    Ok(request)
                });
            let sent = timeout(HANGING, store.put(dripping(UploadKey::random().unwrap()))).await;
            let refused = sent.expect("a slow upload is not ended").unwrap_err();
            assert!(refused.message().contains("peer_bytes_per_second_min"), "{refused}");
            let client = self.daemon.client(0).connect().await.unwrap();
            let vector = client.put_vector(&KNOWN.vectors[KNOWN.vectors.len() - 1][..]);
            let vector = vector.await.unwrap();
            let id = Some(get_request::Id::UploadId(vector.id.0.to_vec().into()));
            let unread = store.get(GetRequest { id, ..GetRequest::default() }).await.unwrap();
            client.release_vector(vector.id).await.unwrap();
            until_idle_or_over(&self).await;
            drop(unread);
            add_one(&self.counts.slow_peers);
        }
    }

    /// Connections that send noise, or nothing.
    async fn send_garbage(self: Arc<Self>) {
        let address: SocketAddr = self.daemon.address();
        let mut rng = StdRng::seed_from_u64(77);
        while !self.is_over() {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let noise: Vec<u8> = (0..rng.random_range(0..500)).map(|_| rng.random()).collect();
            let _refused = socket.write_all(&noise).await;
            sleep(Duration::from_millis(rng.random_range(0..100))).await;
            add_one(&self.counts.garbage);
        }
    }
}

/// Keeps a response unread for longer than the daemon waits for its reader.
async fn until_idle_or_over(plan: &FaultPlan) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) && !plan.is_over() {
        sleep(Duration::from_millis(100)).await;
    }
}

/// A vector of a mebibyte, a few bytes at a time.
fn dripping(id: UploadKey) -> impl Stream<Item = PutRequest> + Send {
    let encoding = ScalarEncoding::U8 as i32;
    let count = 1 << 20;
    let vector = VectorUpload { upload_id: id.0.to_vec().into(), encoding, count, streams: 1 };
    let chunk = |n| Message::Chunk(Chunk { offset: 10 * n, data: vec![1; 10].into() });
    let messages = stream::iter((0..count / 10).map(chunk)).then(|chunk| async {
        sleep(Duration::from_millis(100)).await;
        chunk
    });
    let messages = stream::iter([Message::Vector(vector)]).chain(messages);
    messages.map(|message| PutRequest { message: Some(message) })
}

/// Waits until the daemon holds no more than `before`.
async fn until_within(daemon: &ChildDaemon, before: &ChildResources) -> ChildResources {
    let begun = Instant::now();
    loop {
        let now = daemon.resources();
        if now.is_within(before) {
            return now;
        }
        assert!(begun.elapsed() < HANGING, "held {before:?}, now {now:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Runs the workers for one half of a test, with faults of every kind.
async fn run_with_faults(
    daemon: &Arc<ChildDaemon>,
    workers: Vec<Worker<'static>>,
    load: &FaultLoad,
    tally: &Arc<Tally>,
) -> Vec<Worker<'static>> {
    let plan = Arc::new(FaultPlan {
        daemon: daemon.clone(),
        kills: load.kills,
        restarts_before: daemon.metric("capstan_worker_restarts_total").await,
        is_over: AtomicBool::new(false),
        counts: FaultCounts::default(),
    });
    let mut faults = JoinSet::new();
    faults.spawn(plan.clone().kill_workers());
    faults.spawn(plan.clone().send_garbage());
    (0..load.vanishing_clients).for_each(|seed| _ = faults.spawn(plan.clone().vanish(seed)));
    (0..load.slow_peers).for_each(|_| _ = faults.spawn(plan.clone().be_slow()));
    let workers = run(workers, load.size, tally).await;
    plan.is_over.store(true, Ordering::Relaxed);
    faults.join_all().await;
    println!("{tally}\n{:?}", plan.counts);
    let is_killing = load.size.half > load.kills.first_pause;
    assert!(plan.counts.are_complete(is_killing), "some faults never occurred");
    workers
}

/// A load with faults.
struct FaultLoad {
    size: LoadSize,
    kills: KillTimes,
    vanishing_clients: u64,
    slow_peers: u64,
    /// The pause before the measurement in the middle.
    settling: Duration,
}

impl FaultLoad {
    fn costs_no_result_and_leaves_nothing_behind(&self) {
        let flags = ["--idle-timeout-ms", IDLE_TIMEOUT_MS, "--upload-ttl-s", "10"];
        let daemon = Arc::new(ChildDaemon::start(&flags, GPUS));
        Runtime::new().unwrap().block_on(async {
            let mut workers = Vec::new();
            for number in 0..self.size.clients {
                let client = daemon.client(number).connect().await.unwrap();
                let rng = StdRng::seed_from_u64(number);
                let mut worker = Worker::new(&KNOWN, client, rng, number).await;
                (worker.unusual_percent, worker.persists) = (self.size.unusual_percent, true);
                workers.push(worker);
            }
            let observer = daemon.client(0).connect().await.unwrap();
            let tally = Arc::new(Tally::default());
            let mut middle = None;
            for _ in 0..2 {
                workers = run_with_faults(&daemon, workers, self, &tally).await;
                for tenant in 0..TENANTS {
                    release_left_behind(&daemon.client(tenant).connect().await.unwrap()).await;
                }
                until_idle(&observer).await;
                middle = match &middle {
                    None => {
                        sleep(self.settling).await;
                        Some(daemon.resources())
                    }
                    Some(middle) => {
                        let end = until_within(&daemon, middle).await;
                        println!("in the middle: {middle:?}\nat the end:    {end:?}");
                        None
                    }
                };
            }
            println!("{:?}", self.size);
            assert!(tally.is_complete(), "some outcomes never occurred");
            assert_eq!(daemon.workers().len(), GPUS);
        });
        Arc::into_inner(daemon).expect("no task is left").stop();
    }
}

#[test]
fn faults_cost_no_result_and_leave_nothing_behind() {
    let half = Duration::from_secs(1);
    let load = FaultLoad {
        size: LoadSize { clients: 4, half, calls_min: 12, unusual_percent: 12 },
        kills: SHORT_KILLS,
        vanishing_clients: 1,
        slow_peers: 1,
        settling: Duration::ZERO,
    };
    load.costs_no_result_and_leaves_nothing_behind();
}

#[test]
#[ignore = "sweep"]
fn faults_during_a_long_load_cost_no_result_and_leave_nothing_behind() {
    if !sweep::is_chosen("a long load with faults") {
        return;
    }
    let load = FaultLoad {
        // More unusual calls than in the other test, which makes more calls.
        size: LoadSize::long("CAPSTAN_FAULTS_SECONDS", 20.0, 4),
        kills: LONG_KILLS,
        vanishing_clients: 4,
        slow_peers: 4,
        // Idle threads of the daemon end after ten seconds.
        settling: Duration::from_secs(11),
    };
    load.costs_no_result_and_leaves_nothing_behind();
}
