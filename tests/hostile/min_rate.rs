//! Senders and readers that are slow, but never silent: those below the minimum rate are given up,
//! those above it are served, however long they take.

use std::time::{Duration, Instant};

use bytes::Bytes;
use capstan::{server::ServerSettings, wire::v1};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::time::sleep;
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderMap, Request},
    transport::Endpoint,
};

use crate::{
    daemon::{
        client_without_deadlines, compute, load, messages, retry_idle, retry_until_ok, store,
        until_idle,
    },
    table::{World, assert_status, settings},
};

const WINDOW: Duration = Duration::from_millis(500);
const RATE: u64 = 64 << 10;
/// Payload of all uploads, and bytes that are sent at a time.
const PAYLOAD: usize = 512 << 10;
const PIECE: usize = 8 << 10;
/// Pauses that give four times the minimum rate, for two seconds, and half of it.
const FAST: Duration = Duration::from_millis(31);
const SLOW: Duration = Duration::from_millis(250);

async fn world() -> World {
    let limits =
        ServerSettings { idle_timeout: WINDOW, peer_bytes_per_second_min: RATE, ..settings() };
    World::new(limits).await
}

/// Items with a pause before each one.
fn paced<T: Send + 'static>(items: Vec<T>, pause: Duration) -> impl Stream<Item = T> + Send {
    stream::iter(items).then(move |item| async move {
        sleep(pause).await;
        item
    })
}

/// A vector in chunks of [`PIECE`].
fn put_messages() -> Vec<v1::PutRequest> {
    let vector = messages::new_vector(v1::ScalarEncoding::U8, PAYLOAD as u64);
    let chunk = |start| messages::chunk(start as u64, vec![1; PIECE]);
    messages::put_vector(vector, (0..PAYLOAD).step_by(PIECE).map(chunk).collect())
}

/// A call with one message after the other, each with its prefix.
fn encoded(messages: &[impl Message]) -> Vec<u8> {
    let framed = messages.iter().map(|message| {
        let length = (message.encoded_len() as u32).to_be_bytes();
        [&[0], &length[..], &message.encode_to_vec()].concat()
    });
    framed.collect::<Vec<_>>().concat()
}

/// Sends a request's body in pieces with a pause before each one, whatever messages they cut.
async fn send_in_pieces(
    world: &World,
    path: &str,
    body: Vec<u8>,
    pause: Duration,
) -> Result<(), Status> {
    let pieces: Vec<_> = body.chunks(PIECE).map(Bytes::copy_from_slice).collect();
    let frames = paced(pieces, pause).map(|piece| Ok::<_, Status>(http_body::Frame::data(piece)));
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let request = Request::post(format!("{origin}{}", &path[1..]))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(StreamBody::new(frames)))
        .unwrap();
    let unavailable = |error: &dyn std::error::Error| Status::unavailable(error.to_string());
    let response = client.request(request).await.map_err(|error| unavailable(&error))?;
    let status_in = |headers: &HeaderMap| match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    };
    status_in(response.headers())?;
    let body = response.into_body().collect().await.map_err(|error| unavailable(&error))?;
    status_in(body.trailers().expect("gRPC ends with trailers"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_above_the_rate_succeed_and_others_are_given_up() {
    let world = world().await;
    let put = async |pause| {
        let sent = store(&world.channel).put(paced(put_messages(), pause)).await;
        sent.map(|response| response.into_inner().object.expect("a vector"))
    };
    let fast = async {
        let begun = Instant::now();
        let object = retry_idle(async || put(FAST).await).await.expect("faster than the rate");
        assert!(begun.elapsed() > 3 * WINDOW, "too fast to show anything");
        let Some(v1::object::Kind::Vector(vector)) = object.kind else { panic!("not a vector") };
        release(&world, &vector.upload_id).await;
    };
    let slow = async {
        let begun = Instant::now();
        let refused = put(SLOW).await.expect_err("slower than the rate");
        assert_status("a slow sender", &refused, Code::DeadlineExceeded, "IDLE");
        assert!(begun.elapsed() >= WINDOW, "cut off too early");
        assert!(refused.message().contains("peer_bytes_per_second_min"), "{refused}");
    };
    tokio::join!(fast, slow);
    until_idle(&world.channel, "a slow sender").await;
    world.assert_healthy("slow senders").await;
}

async fn release(world: &World, id: &Bytes) {
    let id = Some(v1::release_request::Id::UploadId(id.clone()));
    store(&world.channel).release(v1::ReleaseRequest { id }).await.expect("the vector is stored");
}

/// A call of `Put` with one large chunk.
fn put_body(id: &Bytes) -> Vec<u8> {
    let vector = messages::vector(id, v1::ScalarEncoding::U8, PAYLOAD as u64);
    encoded(&messages::put_vector(vector, vec![messages::chunk(0, vec![1; PAYLOAD])]))
}

/// A unary call with one large message.
fn msm_body(world: &World) -> Vec<u8> {
    // The server skips fields that it does not know.
    let mut padded = world.good_msm().0.encode_to_vec();
    padded.extend([0xfa, 0x7f, 0x80, 0x80, 0x20]);
    padded.extend(vec![0; PAYLOAD]);
    [&[0], &(padded.len() as u32).to_be_bytes()[..], &padded].concat()
}

/// A message that takes longer than the idle timeout is not silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_message_is_received_if_its_bytes_arrive_fast_enough() {
    let world = world().await;
    let check = async |path: &str| {
        let is_put = path.ends_with("Put");
        let send = async |pause| {
            let id = messages::id();
            let body = if is_put { put_body(&id) } else { msm_body(&world) };
            send_in_pieces(&world, path, body, pause).await.map(|()| id)
        };
        let fast = async {
            let begun = Instant::now();
            let sent = retry_idle(async || send(FAST).await).await;
            let id = sent.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(begun.elapsed() > 3 * WINDOW, "{path}: too fast to show anything");
            if is_put {
                release(&world, &id).await;
            }
        };
        let (refused, ()) = tokio::join!(send(SLOW), fast);
        let refused = refused.expect_err("slower than the rate");
        assert_status(path, &refused, Code::DeadlineExceeded, "IDLE");
    };
    tokio::join!(check("/capstan.v1.Store/Put"), check("/capstan.v1.Compute/Msm"));
    world.assert_healthy("slow messages").await;
}

/// Reads a transform of 2^16 elements, 2 MiB, with a pause before each message.
async fn read_slowly(world: &World, pause: Duration) -> Result<(), Status> {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.daemon.address)).unwrap();
    let channel = endpoint.initial_stream_window_size(1 << 16).connect().await.unwrap();
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 1 << 16);
    let chunk = |start: usize| messages::chunk(start as u64, vec![0; 256 << 10]);
    let chunks = (0..32 << 16).step_by(256 << 10).map(chunk).collect();
    let call = messages::ntt_stream(messages::ntt_spec(16), vector, chunks);
    let mut answers = compute(&channel).ntt_stream(stream::iter(call)).await?.into_inner();
    loop {
        sleep(pause).await;
        if answers.message().await?.is_none() {
            return Ok(());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_above_the_rate_succeed_and_others_are_given_up() {
    let limits = ServerSettings {
        // A part of a response, 256 KiB, takes half of the window at the minimum rate.
        idle_timeout: WINDOW,
        peer_bytes_per_second_min: 1 << 20,
        ..settings()
    };
    let world = World::new(limits).await;
    let fast = async {
        let begun = Instant::now();
        let pause = Duration::from_millis(100);
        let read = retry_idle(async || read_slowly(&world, pause).await).await;
        read.expect("faster than the rate");
        assert!(begun.elapsed() > WINDOW, "too fast to show anything");
    };
    // Each part is taken before the window ends.
    let slow = read_slowly(&world, Duration::from_millis(400));
    let (refused, ()) = tokio::join!(slow, fast);
    let refused = refused.expect_err("too slow");
    assert_status("a slow reader", &refused, Code::DeadlineExceeded, "IDLE");
    until_idle(&world.channel, "a slow reader").await;
    world.assert_healthy("slow readers").await;
}

/// The time of a job is not the reader's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_waits_for_its_job_is_not_slow() {
    let world = world().await;
    world.dial.set(crate::daemon::faulty_engine::EngineMode::Hangs);
    let (request, _) = world.good_msm();
    // If a busy host delays the message, the server takes that for silence.
    let call = retry_until_ok("a running job", async || {
        let (mut client, request) = (compute(&world.channel), request.clone());
        let call = tokio::spawn(async move { client.msm(request).await });
        retry_until_ok("a job", async || match load(&world.channel).await {
            load if load.jobs == 1 || call.is_finished() => Ok(()),
            load => Err(load),
        })
        .await;
        if call.is_finished() { Err(call.await) } else { Ok(call) }
    });
    let call = call.await;
    sleep(3 * WINDOW).await;
    assert!(!call.is_finished(), "given up during its job");
    call.abort();
    world.dial.set(crate::daemon::faulty_engine::EngineMode::Honest);
    world.assert_healthy("a long job").await;
}
