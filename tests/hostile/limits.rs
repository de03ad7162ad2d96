//! Limits of the server and of a connection: requests above them are refused at once, with a retry
//! delay if a retry can succeed.

use bytes::Bytes;
use capstan::{
    curve::{G1Affine, points::PointEncoding},
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status, transport::Channel};

use crate::{
    daemon::{
        compute, faulty_engine::EngineMode, messages, reason, retry_after, retry_until_ok, store,
        until_idle, until_load,
    },
    table::{Call, World, settings},
};

pub const MIB: u64 = 1 << 20;

/// Starts the upload of a vector of `bytes` bytes and sends only the first; the server holds it.
pub async fn hold(channel: &Channel, bytes: u64) -> Result<v1::VectorUpload, Status> {
    use futures_util::StreamExt;
    let vector = messages::new_vector(v1::ScalarEncoding::U8, bytes);
    let messages = messages::put_vector(vector.clone(), vec![messages::chunk(0, vec![0])]);
    let mut client = store(channel);
    let call =
        tokio::spawn(
            async move { client.put(stream::iter(messages).chain(stream::pending())).await },
        );
    let stat = async || {
        let id = Some(v1::stat_request::Id::UploadId(vector.upload_id.clone()));
        match store(channel).stat(v1::StatRequest { id }).await {
            Ok(_) => Ok(true),
            Err(_) if call.is_finished() => Ok(false),
            Err(status) => Err(status),
        }
    };
    if retry_until_ok("an upload is held or refused", stat).await {
        return Ok(vector);
    }
    // An upload of a single byte is complete, and the server holds it too.
    call.await.expect("no panic").map(|_| vector)
}

/// Repeats an upload while its slot is refused: an earlier upload returns its permit shortly after
/// its answer.
async fn with_permit<T>(mut upload: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    let upload = async || match upload().await {
        Err(status) if reason(&status).ends_with("UPLOADS") => Err(status),
        answer => Ok(answer),
    };
    retry_until_ok("a permit for an upload", upload).await
}

pub async fn release(channel: &Channel, vector: &v1::VectorUpload) {
    let id = Some(v1::release_request::Id::UploadId(vector.upload_id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.expect("was held");
}

fn assert_full(status: &Status, expected: &str, again: bool) {
    assert_eq!((status.code(), &*reason(status)), (Code::ResourceExhausted, expected), "{status}");
    assert_eq!(retry_after(status).is_some(), again, "{expected}: {status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_limited_per_server_and_per_connection() {
    let world = World::new(settings()).await;
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    let three = world.daemon.channel().await;
    let never = hold(&one, 32 * MIB + 1).await.unwrap_err();
    assert_full(&never, "CONNECTION_BYTES", false);
    let first = hold(&one, 30 * MIB).await.unwrap();
    let full = hold(&one, 3 * MIB).await.unwrap_err();
    assert_full(&full, "CONNECTION_BYTES", true);
    let second = hold(&two, 30 * MIB).await.unwrap();
    let full = hold(&three, 5 * MIB).await.unwrap_err();
    assert_full(&full, "BYTES_IN_FLIGHT", true);
    // A connection at its limit does not block the others.
    let (request, sum) = world.good_msm();
    assert_eq!(Call::Msm(request).send(&three).await.unwrap(), sum);
    release(&one, &first).await;
    until_load(&two, "bytes come back", |load| load.bytes_in_flight <= 30 * MIB).await;
    let third = hold(&three, 5 * MIB).await.unwrap();
    release(&three, &third).await;
    release(&two, &second).await;
    world.assert_healthy("bytes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_cannot_take_all_uploads() {
    let world = World::new(settings()).await;
    let (greedy, other) = (world.daemon.channel().await, world.daemon.channel().await);
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..settings().uploads_max {
        match hold(&greedy, 1).await {
            Ok(vector) => held.push(vector),
            Err(status) => refused.push(status),
        }
    }
    let vector = hold(&other, 1).await.expect("another connection has its own quota");
    release(&other, &vector).await;
    assert_eq!(held.len(), settings().connection_uploads_max as usize);
    for status in refused {
        assert_full(&status, "CONNECTION_UPLOADS", true);
        assert!(status.message().contains("connection_uploads_max"), "{status}");
    }
    let first = held.pop().expect("some are held");
    release(&greedy, &first).await;
    held.push(with_permit(async || hold(&greedy, 1).await).await.expect("a slot is free again"));
    for vector in &held {
        release(&greedy, vector).await;
    }
    world.assert_healthy("uploads of one connection").await;
}

/// Sends a vector of 16 MiB on its own connection.
async fn offer(channel: Channel) -> Result<v1::VectorUpload, Status> {
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 16 * MIB);
    let [header] = &messages::put_vector(vector.clone(), vec![])[..] else { panic!("a header") };
    let piece = Bytes::from(vec![1; MIB as usize]);
    let chunk = move |i| {
        let chunk = v1::Chunk { offset: i * MIB, data: piece.clone() };
        v1::PutRequest { message: Some(v1::put_request::Message::Chunk(chunk)) }
    };
    let messages = stream::iter([header.clone()].into_iter().chain((0..16).map(chunk)));
    store(&channel).put(messages).await.map(|_| vector)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_above_the_budget_take_no_memory() {
    const SENDERS: u64 = 48;
    let world = World::new(settings()).await;
    let mut calls = Vec::new();
    for _ in 0..SENDERS {
        calls.push(tokio::spawn(offer(world.daemon.channel().await)));
    }
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(vector) => accepted.push(vector),
            Err(status) => {
                assert_full(&status, "BYTES_IN_FLIGHT", true);
                refused += 1;
            }
        }
    }
    world.resources.assert_within("payloads above the budget");
    assert!(accepted.len() as u64 * 16 * MIB <= settings().bytes_in_flight_max);
    assert_eq!(accepted.len() as u64 + refused, SENDERS);
    for vector in &accepted {
        release(&world.channel, vector).await;
    }
    // Permits are returned once the payloads are wiped.
    until_idle(&world.channel, "payloads above the budget").await;
    world.assert_healthy("payloads above the budget").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_total_can_never_fit_gets_no_retry_delay() {
    let world = World::new(settings()).await;
    // 16 MiB of payload, 16 of result, and working memory on top.
    let spec = || v1::NttSpec { batch: 1 << 10, ..messages::ntt_spec(9) };
    let vector = || messages::new_vector(v1::ScalarEncoding::Canonical, 1 << 19);
    let call = Call::ntt_stream(spec(), vector(), vec![]);
    assert_full(&call.send(&world.channel).await.unwrap_err(), "CONNECTION_BYTES", false);
    world.assert_healthy("sums").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_limited_per_server_and_per_connection() {
    let limits = ServerSettings { jobs_max: 5, connection_jobs_max: 3, workers: 1, ..settings() };
    let world = World::new(limits).await;
    world.dial.set(EngineMode::Hangs);
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    let begin = |channel: &Channel| {
        let (mut client, (request, _)) = (compute(channel), world.good_msm());
        tokio::spawn(async move { client.msm(request).await.map(drop) })
    };
    let mut calls: Vec<_> = (0..3).map(|_| begin(&one)).collect();
    until_load(&world.channel, "jobs of one connection", |load| load.jobs == 3).await;
    let full = begin(&one).await.unwrap().unwrap_err();
    assert_full(&full, "CONNECTION_JOBS", true);
    calls.extend((0..2).map(|_| begin(&two)));
    until_load(&world.channel, "jobs of both", |load| load.jobs == 5).await;
    let full = begin(&two).await.unwrap().unwrap_err();
    assert_full(&full, "JOBS", true);
    world.dial.set(EngineMode::Honest);
    for call in calls {
        call.await.unwrap().expect("an accepted job completes");
    }
    world.assert_healthy("jobs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_and_the_store_are_limited() {
    // The world stores two objects already.
    let limits =
        ServerSettings { uploads_max: 2, store_bytes_max: 2 * MIB, objects_max: 2, ..settings() };
    let world = World::new(limits).await;
    let channel = &world.channel;
    let first = with_permit(async || hold(channel, 1).await).await.unwrap();
    let second = with_permit(async || hold(channel, 1).await).await.unwrap();
    assert_full(&hold(channel, 1).await.unwrap_err(), "UPLOADS", true);
    release(channel, &first).await;
    release(channel, &second).await;
    let put = async |count| {
        let bases = messages::bases::<G1Affine>(PointEncoding::Compressed, count);
        Call::put_bases(bases, vec![]).send(channel).await
    };
    let never = with_permit(async || put(22_000).await).await.unwrap_err();
    assert_full(&never, "STORE", false);
    let full = with_permit(async || put(21_845).await).await.unwrap_err();
    assert_full(&full, "STORE", true);
    assert_full(&put(1).await.unwrap_err(), "OBJECTS", true);
    world.assert_healthy("uploads and store").await;
}
