//! Peers that send no valid HTTP/2, too much metadata, or open too many connections.

use std::time::{Duration, Instant};

use capstan::{server::ServerSettings, wire::v1};
use futures_util::{StreamExt, stream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tonic::{Code, Request, Status};

use crate::{
    daemon::{
        TEST_TIMEOUT, UNREACHED_LIMIT, admin, compute, load, messages, reason, retry_until_ok,
        store, unix_channel, until_load,
    },
    resources::resident,
    table::{World, settings},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];

/// Reads until the server closes the connection.
async fn closed(socket: &mut TcpStream) {
    let mut sink = Vec::new();
    let read = tokio::time::timeout(TEST_TIMEOUT, socket.read_to_end(&mut sink)).await;
    // A reset counts as well.
    let _end = read.expect("the server closes the connection");
}

/// Waits until only the world's own connection is left.
async fn until_only_connection(world: &World) {
    until_load(&world.channel, "alone", |load| load.connections == 1).await;
}

/// A peer that completes the handshake and sends nothing more. Connects again if it was too slow.
async fn handshaken_peer(world: &World) -> TcpStream {
    retry_until_ok("a handshake", async || {
        let mut socket = TcpStream::connect(world.daemon.address).await?;
        socket.write_all(&[PREFACE, &SETTINGS].concat()).await?;
        let mut received = Vec::new();
        while !received.windows(9).any(|frame| frame == SETTINGS_ACK) {
            if socket.read_buf(&mut received).await? == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
            }
        }
        Ok(socket)
    })
    .await
}

/// A browser sends them for any page, with the user's client certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_grpc_reach_no_service() {
    let world = World::new(settings()).await;
    let socket = TcpStream::connect(world.daemon.address).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    for (method, path, content_type, status) in [
        ("GET", "/", "text/html", 404),
        ("GET", "/capstan.v1.Admin/GetInfo", "application/grpc", 404),
        ("POST", "/capstan.v1.Store/Release", "text/plain", 415),
        ("POST", "/capstan.v1.Store/Release", "application/x-www-form-urlencoded", 415),
        ("POST", "/capstan.v1.Store/Release", "multipart/form-data", 415),
        ("POST", "/capstan.v1.Store/Release", "application/grpc", 200),
    ] {
        let request = http::Request::builder().method(method).uri(format!("http://x{path}"));
        let request = request.header("content-type", content_type).body(()).unwrap();
        sender = sender.ready().await.unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), status, "{method} {path} {content_type}");
        let is_answered = response.headers().contains_key("x-request-id");
        assert_eq!(is_answered, status == 200, "{method} {path} {content_type}");
    }
    drop(sender);
    world.assert_healthy("requests that are not gRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_http2_ends_only_its_own_connection() {
    let world = World::new(settings()).await;
    let mut state = 7u64;
    let mut noise = |n: usize| -> Vec<u8> {
        let step = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        (0..n).map(step).collect()
    };
    let mut all = vec![
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(4),
        vec![0; 1 << 16],
        vec![0xff; 1 << 16],
        [PREFACE, &[0xff; 64]].concat(),
        // The header of a frame of 16 MiB.
        [PREFACE, &SETTINGS, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
        // DATA on a stream that was never opened; a window of no bytes; a ping of a wrong size.
        [PREFACE, &SETTINGS, &[0, 0, 1, 0, 0, 0, 0, 0, 9, 1]].concat(),
        [PREFACE, &SETTINGS, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
        [PREFACE, &SETTINGS, &[0, 0, 1, 6, 0, 0, 0, 0, 0, 0]].concat(),
    ];
    for n in [1, 23, 24, 100, 5000, 1 << 17] {
        all.push(noise(n));
        all.push([PREFACE, &noise(n)].concat());
        all.push([PREFACE, &SETTINGS, &noise(n)].concat());
    }
    for bytes in all {
        let mut socket = TcpStream::connect(world.daemon.address).await.unwrap();
        // The server may close the connection during the write.
        let _refused = socket.write_all(&bytes).await;
        let _gone = socket.shutdown().await;
        closed(&mut socket).await;
    }
    until_only_connection(&world).await;
    world.assert_healthy("noise").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_peer_is_disconnected() {
    let handshake_timeout = Duration::from_millis(300);
    let world = World::new(ServerSettings { handshake_timeout, ..settings() }).await;
    let begun = Instant::now();
    let mut silent = TcpStream::connect(world.daemon.address).await.unwrap();
    let mut half = TcpStream::connect(world.daemon.address).await.unwrap();
    // Fails if this thread was slow and the server has closed the connection already.
    let _gone = half.write_all(&PREFACE[..10]).await;
    closed(&mut silent).await;
    closed(&mut half).await;
    // A slow machine only delays the cutoff.
    assert!(begun.elapsed() >= handshake_timeout, "cut off before the timeout");
    until_only_connection(&world).await;
    // A peer that has completed the handshake may be idle.
    let mut idle = handshaken_peer(&world).await;
    let left = tokio::time::timeout(2 * handshake_timeout, closed(&mut idle)).await;
    assert!(left.is_err(), "cut off after its handshake");
    drop(idle);
    world.assert_healthy("silent peers").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_above_the_limit_are_refused_and_the_others_served() {
    let handshake_timeout = UNREACHED_LIMIT;
    let limits = ServerSettings { handshake_timeout, connections_max: 3, ..settings() };
    let world = World::new(limits).await;
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    until_load(&one, "all three", |load| load.connections == 3).await;
    let mut refused = TcpStream::connect(world.daemon.address).await.unwrap();
    closed(&mut refused).await;
    world.assert_healthy("one too many").await;
    assert_eq!(load(&two).await.connections, 3);
    drop((one, two));
    until_only_connection(&world).await;
    let again = world.daemon.channel().await;
    assert_eq!(load(&again).await.connections, 2);
}

/// Starts an upload that never ends. Returns when the server has it.
async fn endless_upload(world: &World) -> JoinHandle<Result<(), Status>> {
    let channel = world.daemon.channel().await;
    let upload = messages::put_vector(messages::new_vector(v1::ScalarEncoding::U8, 1000), vec![]);
    let endless = stream::iter(upload).chain(stream::pending());
    let call = tokio::spawn(async move { store(&channel).put(endless).await.map(drop) });
    until_load(&world.channel, "an upload", |load| load.bytes_in_flight > 0).await;
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_call_is_closed() {
    let connection_idle_max = Duration::from_millis(300);
    let world = World::new(ServerSettings { connection_idle_max, ..settings() }).await;
    let busy = endless_upload(&world).await;
    let mut idle = handshaken_peer(&world).await;
    closed(&mut idle).await;
    assert!(!busy.is_finished(), "a connection was closed during its call");
    busy.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_connection_takes_no_calls_and_ends() {
    let connection_age_max = Duration::from_millis(500);
    let world = World::new(ServerSettings { connection_age_max, ..settings() }).await;
    // Without calls, it ends at once; with a call that does not end, later.
    let busy = endless_upload(&world).await;
    let mut idle = handshaken_peer(&world).await;
    closed(&mut idle).await;
    let ended = tokio::time::timeout(TEST_TIMEOUT, busy).await.expect("an old connection ends");
    assert!(ended.expect("no panic").is_err(), "an endless upload ended well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_cannot_take_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let limits = ServerSettings {
        // A refused connection is closed at once, not because it is silent.
        handshake_timeout: UNREACHED_LIMIT,
        connections_max: 4,
        connections_per_address_max: 2,
        unix_socket: Some(socket.clone()),
        ..settings()
    };
    let world = World::new(limits).await;
    let another = world.daemon.channel().await;
    let mut refused = TcpStream::connect(world.daemon.address).await.unwrap();
    closed(&mut refused).await;
    let local = unix_channel(&socket).await;
    assert_eq!(load(&local).await.connections, 3);
    drop(another);
}

/// The allocator keeps freed memory, apart from what lies at the end of its heap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freed_memory_returns_to_the_system_once_many_connections_have_ended() {
    const PIECES: usize = 32 << 10;
    const PIECE_BYTES: usize = 4 << 10;
    const PEERS: usize = 100;
    let mut world = World::new(settings()).await;
    world.resources.descriptors_max += 2 * PEERS;
    let pieces = (0..PIECES).map(|_| vec![1_u8; PIECE_BYTES]);
    let (kept, freed): (Vec<_>, Vec<_>) =
        pieces.enumerate().partition(|(number, _)| number % 1024 == 0);
    let before = resident();
    drop(freed);
    let most = (PIECES * PIECE_BYTES / 2) as u64;
    if resident() + most <= before {
        println!("skipped: the allocator has returned the memory by itself");
        return;
    }
    let mut peers = Vec::new();
    for _ in 0..PEERS {
        peers.push(handshaken_peer(&world).await);
    }
    drop(peers);
    until_only_connection(&world).await;
    let begun = Instant::now();
    while resident() + most > before {
        assert!(begun.elapsed() < TEST_TIMEOUT, "{} MiB are resident", resident() >> 20);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(kept);
    world.assert_healthy("freed memory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_metadata_is_refused() {
    let world = World::new(settings()).await;
    let channel = world.daemon.channel().await;
    for (count, len) in [(1, 1 << 20), (2000, 16), (3, 8 << 10)] {
        let (request, _) = world.good_msm();
        let mut request = Request::new(request);
        for i in 0..count {
            let key: tonic::metadata::AsciiMetadataKey = format!("x-{i}").parse().unwrap();
            request.metadata_mut().insert(key, "y".repeat(len).parse().unwrap());
        }
        let sent = tokio::time::timeout(TEST_TIMEOUT, compute(&channel).msm(request)).await;
        let status = sent.expect("does not hang").expect_err("above the limit");
        assert_ne!(status.code(), Code::Ok, "{count} of {len}");
        world.assert_healthy("metadata").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_unix_socket_may_drain() {
    let world = World::new(settings()).await;
    let request = v1::DrainRequest { grace_ms: 1 };
    let status = admin(&world.channel).drain(request).await.unwrap_err();
    let refusal = (status.code(), reason(&status));
    assert_eq!(refusal, (Code::PermissionDenied, "ADMIN_ONLY".to_owned()));
    let info = admin(&world.channel).get_info(v1::GetInfoRequest {}).await.unwrap();
    assert!(!info.into_inner().draining);
    world.assert_healthy("drain").await;
    assert!(!messages::id().is_empty());
}
