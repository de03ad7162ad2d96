//! Uploads that are interrupted, striped over connections, or used before they are complete.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use futures_util::{StreamExt, stream};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status, transport::Channel};

use crate::service::daemon::{
    TestServer, UNREACHED_LIMIT, compute,
    faulty_engine::{EngineMode, FaultDial, faulty_engines},
    load, messages, retry_until_ok, store, until_idle, until_load,
};

const N: usize = 1000;

struct Fixture {
    daemon: TestServer,
    points: Vec<G1Affine>,
    scalars: Vec<Fr>,
    payload: Bytes,
}

impl Fixture {
    fn new() -> Self {
        let daemon = TestServer::start(ServerSettings {
            idle_timeout: UNREACHED_LIMIT,
            ..ServerSettings::default()
        });
        let scalars = messages::random(N);
        let payload = messages::canonical(&scalars);
        Self { daemon, points: messages::points(N), scalars, payload }
    }

    fn spec(&self) -> v1::MsmSpec {
        messages::spec(v1::Group::G1 as i32, messages::inline(&self.points))
    }

    fn sum(&self) -> Bytes {
        messages::compressed::<G1Affine>(messages::sum(&self.points, &self.scalars))
    }

    fn vector(&self, id: &Bytes, streams: u32) -> v1::VectorUpload {
        v1::VectorUpload {
            streams,
            ..messages::vector(id, v1::ScalarEncoding::Canonical, N as u64)
        }
    }

    fn piece(&self, start: usize, end: usize) -> v1::Chunk {
        messages::chunk(start as u64, self.payload.slice(start..end))
    }
}

/// The server's status of an upload.
async fn progress(channel: &Channel, id: &Bytes) -> Option<v1::stat_response::Status> {
    let id = Some(v1::stat_request::Id::UploadId(id.clone()));
    let answer = store(channel).stat(v1::StatRequest { id }).await.ok()?;
    answer.into_inner().status
}

async fn received(channel: &Channel, id: &Bytes) -> u64 {
    match progress(channel, id).await {
        Some(v1::stat_response::Status::Upload(upload)) => upload.bytes_received,
        Some(_) => u64::MAX,
        None => 0,
    }
}

async fn until_received(channel: &Channel, id: &Bytes, bytes: u64) {
    let look = async || match received(channel, id).await {
        received if received >= bytes => Ok(()),
        received => Err(received),
    };
    retry_until_ok("bytes of an upload", look).await;
}

async fn release(channel: &Channel, id: &Bytes) {
    let id = Some(v1::release_request::Id::UploadId(id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_upload_resumes_over_another_connection() {
    let fixture = Fixture::new();
    let (id, channel) = (messages::id(), fixture.daemon.channel().await);
    let chunks = vec![fixture.piece(0, 10_000), fixture.piece(20_000, 25_000)];
    let messages = messages::put_vector(fixture.vector(&id, 1), chunks);
    let broken = fixture.daemon.channel().await;
    let mut client = store(&broken);
    let call =
        tokio::spawn(
            async move { client.put(stream::iter(messages).chain(stream::pending())).await },
        );
    until_received(&channel, &id, 15_000).await;
    call.abort();
    drop(broken);
    let Some(v1::stat_response::Status::Upload(upload)) = progress(&channel, &id).await else {
        panic!("the upload is gone");
    };
    assert_eq!((upload.bytes_total, upload.bytes_received), (32_000, 15_000));
    let missing: Vec<_> = upload.missing.iter().map(|range| (range.start, range.end)).collect();
    assert_eq!(missing, [(10_000, 20_000), (25_000, 32_000)]);
    let chunks = vec![fixture.piece(10_000, 20_000), fixture.piece(25_000, 32_000)];
    let messages = messages::put_vector(fixture.vector(&id, 1), chunks);
    let answer = store(&channel).put(stream::iter(messages)).await.unwrap().into_inner();
    assert!(!answer.existed);
    let answer = compute(&channel).msm(messages::msm_on(fixture.spec(), &id)).await.unwrap();
    assert_eq!(answer.into_inner().result.unwrap().points, fixture.sum());
    let get = v1::GetRequest {
        id: Some(v1::get_request::Id::UploadId(id.clone())),
        offset: 1,
        length: 2,
        encoding: None,
    };
    let mut back = store(&channel).get(get).await.unwrap().into_inner();
    let chunk = back.message().await.unwrap().unwrap().chunk.unwrap();
    assert_eq!((chunk.offset, chunk.data), (0, fixture.payload.slice(32..96)));
    release(&channel, &id).await;
    until_idle(&channel, "released").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_streamed_job_leaves_its_upload_resumable() {
    let fixture = Fixture::new();
    let (id, channel) = (messages::id(), fixture.daemon.channel().await);
    let vector = fixture.vector(&id, 1);
    let messages =
        messages::msm_stream(fixture.spec(), vector.clone(), vec![fixture.piece(0, 9_000)]);
    let mut client = compute(&fixture.daemon.channel().await);
    let call = tokio::spawn(async move {
        client.msm_stream(stream::iter(messages).chain(stream::pending())).await
    });
    until_received(&channel, &id, 9_000).await;
    call.abort();
    until_load(&channel, "the job is gone", |load| load.jobs == 0).await;
    assert_eq!(received(&channel, &id).await, 9_000);
    let messages = messages::msm_stream(fixture.spec(), vector, vec![fixture.piece(9_000, 32_000)]);
    let answer = compute(&channel).msm_stream(stream::iter(messages)).await.unwrap();
    assert_eq!(answer.into_inner().result.unwrap().points, fixture.sum());
    until_idle(&channel, "used up").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripes_over_several_connections_are_admitted_once() {
    let fixture = Fixture::new();
    let (id, vector) = (messages::id(), fixture.vector(&messages::id(), 3));
    let vector = v1::VectorUpload { upload_id: id.clone(), ..vector };
    let channel = fixture.daemon.channel().await;
    let (sender, receiver) = mpsc::channel(1);
    let header =
        messages::msm_stream(fixture.spec(), vector.clone(), vec![fixture.piece(0, 8_000)]);
    let mut client = compute(&channel);
    let job = tokio::spawn(async move { client.msm_stream(ReceiverStream::new(receiver)).await });
    for message in header {
        sender.send(message).await.unwrap();
    }
    until_received(&channel, &id, 8_000).await;
    let alone = load(&channel).await;
    let mut stripes = Vec::new();
    for start in [8_000, 16_000] {
        let (mut client, piece) =
            (store(&fixture.daemon.channel().await), fixture.piece(start, start + 8_000));
        let messages = messages::put_vector(vector.clone(), vec![piece]);
        stripes.push(tokio::spawn(async move { client.put(stream::iter(messages)).await }));
    }
    until_received(&channel, &id, 24_000).await;
    let together = load(&channel).await;
    assert_eq!(
        (together.bytes_in_flight, together.jobs),
        (alone.bytes_in_flight, 1),
        "a stripe was admitted separately"
    );
    let last = v1::msm_stream_request::Message::Chunk(fixture.piece(24_000, 32_000));
    sender.send(v1::MsmStreamRequest { message: Some(last) }).await.unwrap();
    let answer = job.await.unwrap().unwrap().into_inner();
    assert_eq!(answer.result.unwrap().points, fixture.sum());
    for stripe in stripes {
        let answer = stripe.await.unwrap().expect("each stripe is answered").into_inner();
        assert!(matches!(answer.object.unwrap().kind, Some(v1::object::Kind::Vector(_))));
    }
    until_idle(&channel, "stripes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_may_start_before_its_data_arrives() {
    let fixture = Fixture::new();
    let (id, channel) = (messages::id(), fixture.daemon.channel().await);
    let (sender, receiver) = mpsc::channel(1);
    let mut client = store(&channel);
    let put = tokio::spawn(async move { client.put(ReceiverStream::new(receiver)).await });
    let mut messages = messages::put_vector(fixture.vector(&id, 1), vec![]);
    sender.send(messages.remove(0)).await.unwrap();
    retry_until_ok("a header", async || progress(&channel, &id).await.ok_or("no upload")).await;
    let mut client = compute(&channel);
    let request = messages::msm_on(fixture.spec(), &id);
    let job = tokio::spawn(async move { client.msm(request).await });
    until_load(&channel, "the job is accepted", |load| load.jobs == 1).await;
    assert!(!job.is_finished());
    // The last chunk comes first.
    for (start, end) in [(30_000, 32_000), (100, 30_000), (0, 100)] {
        let chunk = v1::put_request::Message::Chunk(fixture.piece(start, end));
        sender.send(v1::PutRequest { message: Some(chunk) }).await.unwrap();
    }
    let answer = job.await.unwrap().unwrap().into_inner();
    assert_eq!(answer.result.unwrap().points, fixture.sum());
    put.await.unwrap().unwrap();
    release(&channel, &id).await;
    until_idle(&channel, "a vector").await;
}

/// Waits for a sweep of unused uploads: puts a vector and waits until it is dropped.
async fn until_swept(channel: &Channel) {
    let before = load(channel).await.bytes_in_flight;
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 9);
    let messages = messages::put_vector(vector, vec![messages::chunk(0, vec![0; 9])]);
    store(channel).put(stream::iter(messages)).await.unwrap();
    until_load(channel, "a vector is dropped", |load| load.bytes_in_flight <= before).await;
}

/// A server whose only worker is busy, and an import that waits for it.
struct WaitingImport {
    daemon: TestServer,
    dial: FaultDial,
    channel: Channel,
    busy: JoinHandle<Result<(), Status>>,
    id: Bytes,
    import: JoinHandle<Result<v1::PutResponse, Status>>,
}

impl WaitingImport {
    /// All points have been received when this returns.
    async fn start(settings: ServerSettings) -> Self {
        let (engines, dial) = faulty_engines();
        let daemon = TestServer::with_engines(ServerSettings { workers: 1, ..settings }, engines);
        let (channel, points) = (daemon.channel().await, messages::points::<G1Affine>(2));
        dial.set(EngineMode::Hangs);
        let spec = messages::spec(v1::Group::G1 as i32, messages::inline(&points));
        let request = messages::msm(spec, messages::scalars(v1::ScalarEncoding::U8, vec![2, 3]));
        let mut client = compute(&channel);
        let busy = tokio::spawn(async move { client.msm(request).await.map(drop) });
        until_load(&channel, "the only worker is busy", |load| load.jobs == 1).await;
        let messages = messages::put_points(&points);
        let Some(v1::put_request::Message::Bases(bases)) = &messages[0].message else {
            panic!("a header comes first");
        };
        let (id, mut client) = (bases.upload_id.clone(), store(&channel));
        let put = async move { client.put(stream::iter(messages)).await.map(Response::into_inner) };
        let import = tokio::spawn(put);
        until_received(&channel, &id, 2 * 96).await;
        Self { daemon, dial, channel, busy, id, import }
    }

    /// Lets the worker go on. Returns the server, and the answer to the upload.
    async fn end(self) -> (TestServer, Result<v1::PutResponse, Status>) {
        self.dial.set(EngineMode::Honest);
        let answer = self.import.await.unwrap();
        self.busy.await.unwrap().unwrap();
        until_idle(&self.channel, "an import").await;
        (self.daemon, answer)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_may_take_longer_than_the_upload_ttl() {
    let upload_ttl = Duration::from_millis(1);
    let settings =
        ServerSettings { upload_ttl, idle_timeout: UNREACHED_LIMIT, ..ServerSettings::default() };
    let waiting = WaitingImport::start(settings).await;
    // The first sweep may run before the import's stream has ended.
    until_swept(&waiting.channel).await;
    until_swept(&waiting.channel).await;
    let (_daemon, answer) = waiting.end().await;
    let object = answer.expect("the import does not expire").object.unwrap();
    assert!(matches!(object.kind, Some(v1::object::Kind::Bases(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_upload_ends_its_import() {
    let waiting = WaitingImport::start(ServerSettings::default()).await;
    release(&waiting.channel, &waiting.id).await;
    let (daemon, answer) = waiting.end().await;
    assert_eq!(answer.unwrap_err().code(), Code::Cancelled);
    let stored =
        store(&daemon.channel().await).list(v1::ListRequest::default()).await.unwrap().into_inner();
    assert!(stored.bases.is_empty(), "the import went on: {stored:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_a_vector_does_not_keep_it() {
    let (upload_ttl, idle_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
    let settings = ServerSettings { upload_ttl, idle_timeout, ..ServerSettings::default() };
    let daemon = TestServer::start(settings);
    let channel = daemon.channel().await;
    // Complete, without the last byte, and without any.
    for sent in [3, 2, 0] {
        let vector = messages::new_vector(v1::ScalarEncoding::U8, 3);
        let chunks = (0..sent).map(|at| messages::chunk(at, vec![1])).collect();
        let messages = stream::iter(messages::put_vector(vector.clone(), chunks));
        // Only a stream that breaks leaves an incomplete upload.
        let mut client = store(&channel);
        if sent == 3 {
            client.put(messages).await.unwrap();
        } else {
            let endless = messages.chain(stream::pending());
            let put = timeout(Duration::from_millis(200), client.put(endless)).await;
            assert!(put.is_err(), "the call waits for the last byte");
        }
        retry_until_ok("the vector is dropped", async || {
            let id = Some(v1::stat_request::Id::UploadId(vector.upload_id.clone()));
            match store(&channel).stat(v1::StatRequest { id }).await {
                Ok(found) => Err(found),
                Err(_unknown) => Ok(()),
            }
        })
        .await;
    }
}
