//! NTT streams with wrong lengths, and senders that are silent or too slow.

use std::time::{Duration, Instant};

use bytes::Bytes;
use capstan::{server::ServerSettings, wire::v1};
use futures_util::{Stream, StreamExt, stream};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};

use crate::{
    daemon::{client_without_deadlines, compute, messages, retry_until_ok, store, until_idle},
    mutations::BytesCodec,
    table::{Call, Row, World, assert_status, invalid, settings},
};

pub fn rows(_: &World) -> Vec<Row> {
    let of = v1::ScalarEncoding::Canonical;
    let stream = |count, chunks| {
        let vector = messages::new_vector(of, count);
        Call::ntt_stream(messages::ntt_spec(2), vector, chunks)
    };
    let piece = |offset, len| messages::chunk(offset, vec![0; len]);
    let mut rows = Vec::new();
    let mut row = |name: &str, call, reason, field| {
        rows.push(invalid(format!("ntt stream: {name}"), call, reason, field));
    };
    row("truncated at once", stream(4, vec![]), "LENGTH_MISMATCH", "chunk");
    row("truncated", stream(4, vec![piece(0, 127)]), "LENGTH_MISMATCH", "chunk");
    row("a chunk too long", stream(4, vec![piece(64, 65)]), "SIZE_TOO_LARGE", "chunk");
    row("a chunk past the end", stream(4, vec![piece(u64::MAX, 1)]), "SIZE_TOO_LARGE", "chunk");
    row("too few", stream(3, vec![piece(0, 96)]), "LENGTH_MISMATCH", "input");
    row("too many", stream(5, vec![piece(0, 160)]), "LENGTH_MISMATCH", "input");
    row("a size that overflows", stream(u64::MAX, vec![]), "SIZE_TOO_LARGE", "count");
    let narrow = messages::new_vector(v1::ScalarEncoding::U8, 4);
    let narrow = Call::ntt_stream(messages::ntt_spec(2), narrow, vec![]);
    row("narrow elements", narrow, "OUT_OF_RANGE", "encoding");
    rows
}

const IDLE: Duration = Duration::from_millis(300);

async fn world_with_short_idle_timeout() -> World {
    World::new(ServerSettings { idle_timeout: IDLE, ..settings() }).await
}

/// Messages, then silence without an end of the stream.
fn without_end<M: Send + 'static>(messages: Vec<M>) -> impl Stream<Item = M> + Send + 'static {
    stream::iter(messages).chain(stream::pending())
}

/// A header, then single bytes at intervals.
fn dripping<M: Send + 'static>(
    header: Vec<M>,
    chunk: fn(v1::Chunk) -> M,
) -> impl Stream<Item = M> + Send + 'static {
    let drops = stream::unfold(0, move |at| async move {
        tokio::time::sleep(IDLE / 10).await;
        Some((chunk(messages::chunk(at, vec![1])), at + 1))
    });
    stream::iter(header).chain(drops)
}

/// A stall of the sender only delays the cutoff, so the lower bound holds on any machine.
fn assert_idle(name: &str, begun: Instant, sent: Result<(), Status>) {
    let status = sent.expect_err(name);
    assert_status(name, &status, Code::DeadlineExceeded, "IDLE");
    assert!(begun.elapsed() >= IDLE, "{name}: cut off before the idle limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_and_slow_senders_are_cut_off() {
    let world = world_with_short_idle_timeout().await;
    let channel = &world.channel;
    let vector = || messages::new_vector(v1::ScalarEncoding::U8, 8);
    let begun = Instant::now();
    let put = |messages: Vec<v1::PutRequest>| async move {
        store(channel).put(without_end(messages)).await.map(drop)
    };
    let msm = |messages: Vec<v1::MsmStreamRequest>| async move {
        compute(channel).msm_stream(without_end(messages)).await.map(drop)
    };
    let piece = || vec![messages::chunk(0, vec![1; 4])];
    let drip = |chunk| v1::PutRequest { message: Some(v1::put_request::Message::Chunk(chunk)) };
    let large = messages::new_vector(v1::ScalarEncoding::U8, 1 << 20);
    let large = dripping(messages::put_vector(large, vec![]), drip);
    // Too much to arrive before the server checks, however late it does.
    let spec = v1::MsmSpec { batch: 1 << 12, ..world.spec() };
    let slow = messages::new_vector(v1::ScalarEncoding::U64, 8 << 12);
    let slow = dripping(messages::msm_stream(spec, slow, vec![]), |chunk| v1::MsmStreamRequest {
        message: Some(v1::msm_stream_request::Message::Chunk(chunk)),
    });
    let spec = v1::NttSpec { batch: 1, ..messages::ntt_spec(2) };
    let elements = messages::new_vector(v1::ScalarEncoding::Canonical, 4);
    let ntt = messages::ntt_stream(spec, elements, piece());
    let bases = messages::bases::<capstan::curve::G1Affine>(
        capstan::curve::points::PointEncoding::Compressed,
        4,
    );
    let (mut compute, mut store) = (compute(channel), store(channel));
    let (mut compute_too, mut compute_three) = (compute.clone(), compute.clone());
    let all = tokio::join!(
        put(vec![]),
        put(messages::put_vector(vector(), vec![])),
        put(messages::put_vector(vector(), piece())),
        put(messages::put_bases(bases, piece())),
        msm(vec![]),
        msm(messages::msm_stream(world.spec(), vector(), vec![])),
        msm(messages::msm_stream(world.spec(), vector(), piece())),
        compute.ntt_stream(without_end(ntt)),
        compute_too.ntt_stream(without_end(vec![])),
        store.put(large),
        compute_three.msm_stream(slow),
    );
    for (name, sent) in [
        ("put: no header", all.0),
        ("put: header and silence", all.1),
        ("put: a piece and silence", all.2),
        ("put of bases: a piece and silence", all.3),
        ("msm: no header", all.4),
        ("msm: header and silence", all.5),
        ("msm: a piece and silence", all.6),
        ("ntt: a piece and silence", all.7.map(drop)),
        ("ntt: no header", all.8.map(drop)),
        ("put: dripping", all.9.map(drop)),
        ("msm: dripping", all.10.map(drop)),
    ] {
        assert_idle(name, begun, sent);
    }
    world.assert_healthy("silence").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_on_abandoned_uploads_end() {
    let world = world_with_short_idle_timeout().await;
    // If the upload is dropped before the job arrives, upload it again.
    let ended = retry_until_ok("a job that follows", async || {
        let (id, begun) = (messages::id(), Instant::now());
        let vector =
            v1::VectorUpload { streams: 2, ..messages::vector(&id, v1::ScalarEncoding::U8, 8) };
        let half = messages::put_vector(vector, vec![messages::chunk(0, vec![1; 4])]);
        // One of two streams is complete, the other one never comes.
        let mut client = store(&world.channel);
        let put = tokio::spawn(async move { client.put(stream::iter(half)).await.map(drop) });
        let follow = retry_until_ok("a job", async || {
            let job = compute(&world.channel).msm(messages::msm_on(world.spec(), &id)).await;
            match job.map(drop) {
                Err(status) if status.code() == Code::NotFound && !put.is_finished() => Err(status),
                ended => Ok(ended),
            }
        });
        match follow.await {
            Err(status) if status.code() == Code::NotFound => Err(status),
            follow => Ok((begun, follow, put.await.unwrap())),
        }
    });
    let (begun, follow, put) = ended.await;
    assert_idle("a job that follows", begun, follow);
    assert_idle("the stream that ended", begun, put);
    until_idle(&world.channel, "half an upload").await;
    world.assert_healthy("half an upload").await;
}

/// A unary call whose message never comes: tonic waits for it before it calls the handler.
async fn without_message(
    world: &World,
    path: &'static str,
    timeout: Option<&str>,
) -> Result<(), Status> {
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let mut grpc = Grpc::with_origin(client, origin);
    grpc.ready().await.unwrap();
    let mut request = Request::new(stream::pending::<Bytes>());
    if let Some(timeout) = timeout {
        request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
    }
    grpc.client_streaming(request, PathAndQuery::from_static(path), BytesCodec).await.map(drop)
}

const UNARY: [&str; 3] =
    ["/capstan.v1.Compute/Msm", "/capstan.v1.Store/Stat", "/capstan.v1.Admin/GetInfo"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unary_calls_without_a_message_are_cut_off_after_the_idle_timeout() {
    let world = world_with_short_idle_timeout().await;
    for path in UNARY {
        let begun = Instant::now();
        assert_idle(path, begun, without_message(&world, path, None).await);
    }
    world.assert_healthy("no message").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unary_calls_without_a_message_are_cut_off_at_their_deadline() {
    let world = World::new(settings()).await;
    for path in UNARY {
        let status = without_message(&world, path, Some("150m")).await.expect_err("late");
        assert_status(path, &status, Code::DeadlineExceeded, "DEADLINE");
    }
    world.assert_healthy("no message in time").await;
}
