//! A thousand idle and a thousand hostile connections at a time.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use capstan::client::{Client, Fr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{runtime::Runtime, sync::Semaphore, task::JoinSet};
use tokio_rustls::TlsConnector;

use crate::chaos::{
    daemon::{DaemonProcess, compute, points, start, until_idle, until_ok},
    peers::{HOSTILE, OpenPeer, Peer, connector, open, open_tls},
    sweep,
    tls_files::CertifiedFiles,
};

/// The number of idle peers, and that of hostile ones.
const MANY: usize = 1000;
/// Their number in the plain test with TLS.
const FEW: usize = 100;
/// Peers that connect at the same time.
const CONNECTING: usize = 64;
/// The memory that each connection may add, with what hostile peers open, in addition to
/// [`GROWTH_BYTES`].
const GROWTH_BYTES_EACH: u64 = 88 << 10;
const GROWTH_BYTES: u64 = 16 << 20;

const LIMITS: [&str; 6] = [
    "--connections-max",
    "4096",
    "--connections-per-address-max",
    "4096",
    // Peers that are still in the handshake keep their connection until the test ends.
    "--handshake-timeout-ms",
    "60000",
];

/// Patience with connections that the daemon closes after 40 s: only a hang reaches it.
const NEVER_CLOSED: Duration = Duration::from_secs(240);

/// Lets this process open the connections of one test. The next test waits for the guard.
fn reserve_descriptors() -> MutexGuard<'static, ()> {
    static RESERVED: Mutex<()> = Mutex::new(());
    // The lock is poisoned if another test has failed.
    let reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: files.maximum, maximum: files.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
    let needed = (2 * MANY + 200) as u64;
    assert!(files.maximum.is_none_or(|max| max >= needed), "ulimit -Hn must be {needed} or more");
    reserved
}

/// Opens the peers; idle ones must be accepted.
async fn open_all(
    address: SocketAddr,
    kinds: impl Iterator<Item = Peer>,
    tls: Option<TlsConnector>,
) -> Vec<OpenPeer> {
    let (turns, mut opening) = (Arc::new(Semaphore::new(CONNECTING)), JoinSet::new());
    for (number, kind) in kinds.enumerate() {
        let (turns, tls) = (turns.clone(), tls.clone());
        opening.spawn(async move {
            let _turn = turns.acquire().await;
            let opened = match &tls {
                Some(tls) => open_tls(kind, address, number, tls).await,
                None => open(kind, address, number).await,
            };
            match opened {
                Ok(peer) => Some(peer),
                Err(error) if kind == Peer::Idle => panic!("an idle peer is refused: {error}"),
                Err(_) => None,
            }
        });
    }
    opening.join_all().await.into_iter().flatten().collect()
}

/// Makes correct calls until `is_over`; each must succeed. Returns their number.
async fn call_until(client: Client, is_over: Arc<AtomicBool>) -> u32 {
    let bases = client.put_bases(&points(0, 10)).await.unwrap();
    let mut calls = 0;
    while !is_over.load(Ordering::Relaxed) {
        compute(&client).await.unwrap();
        let sum = client.msm(&bases, &[Fr::from(1); 10]).await.unwrap();
        assert_eq!(sum, points(0, 1)[0] * Fr::from(55));
        calls += 2;
    }
    // They hold a descriptor.
    client.release(bases.id()).await.unwrap();
    calls
}

/// Makes calls among `count` idle peers and as many hostile ones.
async fn good_clients_are_served(
    daemon: &DaemonProcess,
    client: Client,
    tls: Option<TlsConnector>,
    count: usize,
) {
    compute(&client).await.unwrap();
    let address = daemon.address();
    let (files, memory) = (daemon.files(), daemon.status_bytes("VmRSS:"));
    let is_over = Arc::new(AtomicBool::new(false));
    let calls = tokio::spawn(call_until(client.clone(), is_over.clone()));
    let idle = open_all(address, std::iter::repeat_n(Peer::Idle, count), tls.clone()).await;
    let kinds = (0..count).map(|number| HOSTILE[number % HOSTILE.len()]);
    let hostile = open_all(address, kinds, tls).await;
    assert_eq!((idle.len(), hostile.len()), (count, count), "some were not accepted");
    // New connections are accepted and served. The daemon has closed those that broke the protocol,
    // and still waits for those of five of the ten kinds.
    let load = client.info().await.unwrap().load.unwrap();
    assert!(load.connections as usize > count + count / 2, "{load:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = daemon.status_bytes("VmRSS:").saturating_sub(memory);
    let allowed = GROWTH_BYTES + 2 * count as u64 * GROWTH_BYTES_EACH;
    assert!(grown < allowed, "{grown} bytes for {} connections", load.connections);
    is_over.store(true, Ordering::Relaxed);
    let calls = calls.await.unwrap();
    println!("{calls} calls, {} connections, {} KiB more", load.connections, grown >> 10);
    assert!(calls > 0);
    drop((idle, hostile));
    until_idle(&client).await;
    until_ok("descriptors return", async || match daemon.files() {
        now if now <= files => Ok(()),
        now => Err((files, now)),
    })
    .await;
    compute(&client).await.unwrap();
}

#[test]
fn good_clients_are_served_among_a_thousand_idle_and_a_thousand_hostile_peers() {
    let _reserved = reserve_descriptors();
    let daemon = start(&LIMITS);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        good_clients_are_served(&daemon, client, None, MANY).await;
    });
    daemon.stop();
}

fn good_clients_are_served_with_tls(count: usize) {
    let _reserved = reserve_descriptors();
    let certified = CertifiedFiles::new("localhost");
    let [certificate, key] = [&certified.files.certificate, &certified.files.key];
    let tls = ["--tls-certificate", certificate.to_str().unwrap(), "--tls-key"];
    let flags = [&LIMITS[..], &tls, &[key.to_str().unwrap()]].concat();
    let daemon = start(&flags);
    Runtime::new().unwrap().block_on(async {
        let target = daemon.target().replace("http://127.0.0.1", "https://localhost");
        let client = Client::builder(target).retries(0).connections(1);
        let client = client.ca_certificate(certified.certificate_pem.as_str());
        let client = client.connect().await.unwrap();
        let tls = connector(&certified.certificate_pem);
        good_clients_are_served(&daemon, client, Some(tls), count).await;
    });
    daemon.stop();
}

#[test]
fn good_clients_are_served_among_idle_and_hostile_peers_with_tls() {
    good_clients_are_served_with_tls(FEW);
}

#[test]
#[ignore = "sweep"]
fn good_clients_are_served_among_thousands_of_peers_with_tls() {
    if sweep::is_chosen("thousands of peers with TLS") {
        good_clients_are_served_with_tls(MANY);
    }
}

/// Hostile peers whose connections must be closed, although they stay silent. The frames of the
/// others are valid, apart from their number: such connections are closed after ten idle minutes.
fn disconnected_peers() -> impl Iterator<Item = Peer> {
    let is_valid = |kind: &Peer| matches!(kind, Peer::Pings | Peer::Settings | Peer::OpenStreams);
    HOSTILE.into_iter().filter(move |kind| !is_valid(kind))
}

/// The transport's pings end those that have completed the handshake, after 40 s.
#[test]
fn hostile_peers_are_disconnected() {
    let daemon = start(&["--handshake-timeout-ms", "300", "--idle-timeout-ms", "300"]);
    let address = daemon.address();
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let mut closing = JoinSet::new();
        for (number, kind) in disconnected_peers().enumerate() {
            closing.spawn(async move {
                let mut peer = open(kind, address, number).await.unwrap();
                assert!(peer.is_closed_within(NEVER_CLOSED).await, "{kind:?} is kept");
            });
        }
        closing.join_all().await;
        compute(&client).await.unwrap();
    });
    daemon.stop();
}
