//! The daemon with thousands of connections, of which few make calls: its memory, and the latency
//! of the calls, alone and with the idle connections.
//!
//! `cargo bench --bench connections`; `-- idle=9900 active=100 interval_ms=200 seconds=10 rounds=3`
//! sets the numbers of connections, the time between two calls of an active one, the length of a
//! measurement and the number of rounds. The daemon runs in its own process. Peers come from many
//! loopback addresses, so that neither ports nor limits of one address run out.

#[path = "../../tests/common/daemon_process.rs"]
mod daemon_process;
#[path = "../support/mod.rs"]
mod support;

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use capstan::wire::v1::{
    Direction, GetInfoRequest, InlineVector, NttRequest, NttSpec, Order, ScalarEncoding, Verify,
    admin_client::AdminClient, compute_client::ComputeClient, ntt_request::Input,
};
use daemon_process::{DaemonProcess, capstand};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Samples, argument, proc_status};
use tokio::{
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
    sync::Semaphore,
    task::JoinSet,
    time::{interval, sleep},
};
use tonic::transport::{Channel, Endpoint};

/// Loopback addresses of peers: 127.0.0.2 and the following ones.
const ADDRESSES: usize = 200;
/// Connections that are opened at the same time.
const OPENING: usize = 64;
/// log2 of the size of the transforms.
const LG_N: u32 = 8;
/// Files of either process that are no connections.
const OTHER_FILES: u64 = 300;

/// What is measured.
struct Shape {
    idle: usize,
    active: usize,
    interval: Duration,
    time: Duration,
}

/// A measurement.
struct Measured {
    name: &'static str,
    connections: u32,
    rss_kib: u64,
    calls: Samples,
}

fn main() {
    let shape = Shape {
        idle: argument("idle", 9900) as usize,
        active: argument("active", 100) as usize,
        interval: Duration::from_millis(argument("interval_ms", 200)),
        time: Duration::from_secs(argument("seconds", 10)),
    };
    let connections = shape.idle + shape.active;
    raise_file_limit(connections as u64 + OTHER_FILES);
    println!("| | connections | RSS, MiB | calls | p50, ms | p99, ms | longest, ms |");
    println!("|---|---|---|---|---|---|---|");
    for _ in 0..argument("rounds", 3) {
        // A new daemon, whose memory has no past.
        let daemon = start(connections);
        Runtime::new().expect("threads for clients").block_on(round(&daemon, &shape));
    }
}

/// Starts a daemon with this limit on connections.
fn start(connections: usize) -> DaemonProcess {
    let flags = ["--listen", "127.0.0.1:0", "--engine", "cpu", "--metrics-listen", "none"];
    let limit = ["--connections-max", &connections.to_string()];
    DaemonProcess::start(capstand(&[&flags[..], &limit].concat()))
}

async fn round(daemon: &DaemonProcess, shape: &Shape) {
    let active = open(daemon.address(), shape.active).await;
    let measure = async |name| {
        let calls = call(&active, shape).await;
        let info = AdminClient::new(active[0].clone()).get_info(GetInfoRequest {}).await;
        let load = info.expect("the daemon answers").into_inner().load.unwrap_or_default();
        let rss_kib = proc_status(daemon.id(), "VmRSS");
        print(&Measured { name, connections: load.connections, rss_kib, calls });
    };
    // Until memory and code are warm.
    call(&active, &Shape { time: Duration::from_secs(2), ..*shape }).await;
    measure("alone").await;
    let begun = Instant::now();
    let idle = open(daemon.address(), shape.idle).await;
    eprintln!("opened {} connections in {:?}", idle.len(), begun.elapsed());
    measure("with idle ones").await;
    drop(idle);
    sleep(Duration::from_secs(2)).await;
    measure("alone again").await;
}

fn print(Measured { name, connections, rss_kib, calls }: &Measured) {
    let ms = |share| calls.quantile(share).as_secs_f64() * 1e3;
    println!(
        "| {name} | {connections} | {} | {} | {:.2} | {:.2} | {:.2} |",
        rss_kib >> 10,
        calls.0.len(),
        ms(0.5),
        ms(0.99),
        ms(1.0)
    );
}

/// Raises the limit on open files for this process and the daemon.
fn raise_file_limit(needed: u64) {
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: files.maximum, maximum: files.maximum };
    setrlimit(Resource::Nofile, raised).expect("up to the maximum");
    assert!(files.maximum.is_none_or(|max| max >= needed), "ulimit -Hn must be {needed} or more");
}

/// Opens connections and makes a call on each.
async fn open(address: SocketAddr, count: usize) -> Vec<Channel> {
    let (turns, mut opening) = (Arc::new(Semaphore::new(OPENING)), JoinSet::new());
    for number in 0..count {
        let turns = turns.clone();
        opening.spawn(async move {
            let _turn = turns.acquire().await;
            let connector = tower::service_fn(move |_| connect(address, number));
            let endpoint = Endpoint::from_static("http://localhost");
            let channel = endpoint.connect_with_connector(connector).await;
            let channel = channel.expect("the daemon accepts");
            let info = AdminClient::new(channel.clone()).get_info(GetInfoRequest {}).await;
            info.expect("the daemon answers");
            channel
        });
    }
    opening.join_all().await
}

async fn connect(address: SocketAddr, number: usize) -> io::Result<TokioIo<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    let from = 2 + (number % ADDRESSES) as u8;
    socket.bind(([127, 0, 0, from], 0).into())?;
    socket.set_nodelay(true)?;
    Ok(TokioIo::new(socket.connect(address).await?))
}

/// Calls on all channels, one at a time each. Returns how long each call took.
async fn call(channels: &[Channel], shape: &Shape) -> Samples {
    let mut callers = JoinSet::new();
    for (number, channel) in channels.iter().enumerate() {
        let (mut client, pause, time) =
            (ComputeClient::new(channel.clone()), shape.interval, shape.time);
        // Spread over the interval.
        let offset = pause.mul_f64(number as f64 / channels.len() as f64);
        callers.spawn(async move {
            sleep(offset).await;
            let (mut ticks, begun, mut times) = (interval(pause), Instant::now(), Vec::new());
            while begun.elapsed() < time {
                ticks.tick().await;
                let call = Instant::now();
                client.ntt(transform()).await.expect("a transform");
                times.push(call.elapsed());
            }
            times
        });
    }
    Samples(callers.join_all().await.concat())
}

/// A transform of zeros.
fn transform() -> NttRequest {
    let encoding = ScalarEncoding::Canonical as i32;
    let data = Bytes::from(vec![0; 32 << LG_N]);
    let spec = NttSpec {
        lg_n: LG_N,
        direction: Direction::Forward as i32,
        input_order: Order::Natural as i32,
        output_order: Order::Natural as i32,
        output_encoding: encoding,
        verify: Verify::None as i32,
        ..NttSpec::default()
    };
    let input = Some(Input::Inline(InlineVector { encoding, data }));
    NttRequest { spec: Some(spec), input, ..NttRequest::default() }
}
