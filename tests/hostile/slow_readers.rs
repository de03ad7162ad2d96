//! Readers that stall: the server gives up their results, and then closes their connection, which
//! keeps the parts that the transport holds. If callers share it, only the stream is reset.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    curve::{
        G1Affine,
        points::{PointEncoding, encode},
    },
    server::ServerSettings,
    wire::v1::{self, ntt_stream_response::Message},
};
use futures_util::stream;
use tonic::{
    Code, Request,
    transport::{Channel, Endpoint},
};

use crate::{
    daemon::{UNREACHED_LIMIT, compute, load, messages, programs, store, until_idle, until_load},
    table::{Call, World, assert_status, settings},
};

const IDLE: Duration = Duration::from_millis(500);

/// Results of one chunk, and of more chunks than wait for a reader.
const SIZES: [u32; 2] = [10, 17];

/// A connection of which each stream can receive `window` bytes until its reader reads.
async fn connection(world: &World, window: u32) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.daemon.address));
    let endpoint = endpoint.expect("an address").initial_stream_window_size(window);
    endpoint.connect().await.expect("the server accepts")
}

fn ntt_request(lg_n: u32) -> Vec<v1::NttStreamRequest> {
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 1 << lg_n);
    messages::ntt_stream(messages::ntt_spec(lg_n), vector, chunks(lg_n))
}

/// Settings with which a reader that stalls is given up soon.
fn impatient() -> ServerSettings {
    ServerSettings { idle_timeout: IDLE, peer_bytes_per_second_min: 1 << 20, ..settings() }
}

/// Elements that are zero.
fn chunks(lg_n: u32) -> Vec<v1::Chunk> {
    let (bytes, zeros) = (32_usize << lg_n, Bytes::from_static(&[0; 256 << 10]));
    let chunk = |start| {
        let len = zeros.len().min(bytes - start);
        messages::chunk(start as u64, zeros.slice(..len))
    };
    (0..bytes).step_by(zeros.len()).map(chunk).collect()
}

/// What the transport may hold of a response: three parts.
const TRANSPORT_BYTES: u64 = 3 * ((256 << 10) + 1024);

/// Waits until responses that nobody reads are dropped. Their connection keeps what the transport
/// holds of them.
async fn until_dropped(world: &World, responses: u64, name: &str) {
    until_load(&world.channel, name, |load| {
        load.jobs == 0 && load.bytes_in_flight <= responses * TRANSPORT_BYTES
    })
    .await;
}

/// Waits until the connection of responses that nobody reads is closed.
async fn until_closed(world: &World, name: &str) {
    until_load(&world.channel, name, |load| load.connections == 1).await;
    until_idle(&world.channel, name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_for_a_closed_window_are_given_up_after_the_idle_timeout() {
    let world = World::new(impatient()).await;
    let mut unread = Vec::new();
    for lg_n in SIZES {
        let stalled = connection(&world, 0).await;
        let ntt = compute(&stalled).ntt_stream(stream::iter(ntt_request(lg_n))).await;
        let ntt = (stalled, ntt.expect("the response begins"));

        let stalled = connection(&world, 0).await;
        let operations = [programs::input(1, 1 << 10), programs::pad(0, 1 << lg_n)];
        let input = programs::inline(&messages::random(1 << 10));
        let header = programs::call(operations, vec![input], vec![programs::send(1)]);
        let run = compute(&stalled).run(stream::iter(programs::run(header, vec![]))).await;
        unread.push((ntt, stalled, run.expect("the response begins")));
    }
    until_closed(&world, "transforms and runs that nobody reads").await;
    drop(unread);
    world.assert_healthy("a closed window").await;
}

/// Behind a proxy, callers share a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_ends_its_call_and_not_a_connection_that_is_shared() {
    let world = World::new(ServerSettings { shared_connections: true, ..impatient() }).await;
    // HTTP/2's default, and another usual window.
    for window in [(1 << 16) - 1, 1 << 16] {
        let shared = connection(&world, window).await;
        let mut unread = Vec::new();
        // Results of one chunk, and of many.
        for lg_n in [12, 17] {
            let ntt = compute(&shared).ntt_stream(stream::iter(ntt_request(lg_n))).await;
            unread.push(ntt.expect("the response begins").into_inner());
        }
        until_idle(&world.channel, "streams that nobody reads").await;
        let connections = load(&world.channel).await.connections;
        assert_eq!(connections, 2, "a connection with the window {window} was closed");
        let (request, sum) = world.good_msm();
        let served = Call::Msm(request).send(&shared).await;
        assert_eq!(served.expect("another call over the same connection is served"), sum);
        for mut response in unread {
            while let Ok(message) = response.message().await {
                assert!(message.is_some(), "an incomplete response looks complete");
            }
        }
        drop(shared);
        until_closed(&world, "the connection that was shared").await;
    }
    world.assert_healthy("a stalled stream").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_for_a_closed_window_are_given_up_after_the_idle_timeout() {
    let world = World::new(impatient()).await;
    let mut unread = Vec::new();
    for lg_n in SIZES {
        let stalled = connection(&world, 0).await;
        let id = messages::id();
        let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, 1 << lg_n);
        let put = messages::put_vector(vector, chunks(lg_n));
        store(&world.channel).put(stream::iter(put)).await.expect("room for the vector");
        let get = v1::GetRequest {
            id: Some(v1::get_request::Id::UploadId(id.clone())),
            ..Default::default()
        };
        let response = store(&stalled).get(get).await.expect("the response begins");
        let release =
            v1::ReleaseRequest { id: Some(v1::release_request::Id::UploadId(id.clone())) };
        store(&world.channel).release(release).await.expect("the vector exists");
        unread.push((stalled, response));
    }
    until_closed(&world, "vectors that nobody reads").await;
    drop(unread);
    world.assert_healthy("a closed window").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_for_a_closed_window_is_counted_and_dropped() {
    let world = World::new(impatient()).await;
    let stalled = connection(&world, 0).await;
    let points = messages::points::<G1Affine>(150);
    for point in &points {
        let data = encode(PointEncoding::Montgomery, &[*point]);
        let upload = v1::BasesUpload {
            label: "x".repeat(128),
            ..messages::bases::<G1Affine>(PointEncoding::Montgomery, 1)
        };
        let put = messages::put_bases(upload, vec![messages::chunk(0, data)]);
        store(&world.channel).put(stream::iter(put)).await.expect("a good point");
    }
    until_idle(&world.channel, "imports").await;
    let mut client = store(&stalled);
    let list = v1::ListRequest::default();
    let unread = tokio::spawn(async move { client.list(list).await });
    until_load(&world.channel, "an unread list", |load| load.bytes_in_flight > 0).await;
    until_closed(&world, "a list that nobody reads").await;
    unread.abort();
    let read = store(&world.channel).list(v1::ListRequest::default()).await;
    let read = read.expect("a list that is read").into_inner();
    assert_eq!(read.bases.len(), 150 + 2);
    until_idle(&world.channel, "a list that was read").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_for_a_closed_window_are_given_up_at_the_deadline() {
    let world = World::new(settings()).await;
    assert_eq!(settings().idle_timeout, UNREACHED_LIMIT);
    let stalled = connection(&world, 0).await;
    let mut unread = Vec::new();
    for lg_n in SIZES {
        let mut request = Request::new(stream::iter(ntt_request(lg_n)));
        request.set_timeout(Duration::from_secs(3));
        let stalled_ntt = compute(&stalled).ntt_stream(request).await;
        unread.push(stalled_ntt.expect("the response begins"));
    }
    until_dropped(&world, unread.len() as u64, "transforms that nobody reads").await;
    assert_eq!(load(&world.channel).await.connections, 2, "the connection was closed");
    drop((unread, stalled));
    world.assert_healthy("a closed window and a deadline").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_resumes_too_late_gets_an_error() {
    // The connection is closed after the same time again.
    let idle_timeout = Duration::from_secs(3);
    let world = World::new(ServerSettings { idle_timeout, ..impatient() }).await;
    let stalled = connection(&world, 1 << 16).await;
    let ntt = compute(&stalled).ntt_stream(stream::iter(ntt_request(SIZES[1]))).await;
    let mut ntt = ntt.expect("the response begins").into_inner();
    until_dropped(&world, 1, "a transform that nobody reads").await;
    let refused = loop {
        match ntt.message().await {
            Ok(Some(message)) => assert!(matches!(message.message, Some(Message::Chunk(_)))),
            Ok(None) => panic!("an incomplete response looks complete"),
            Err(refused) => break refused,
        }
    };
    assert_status("a late reader", &refused, Code::DeadlineExceeded, "IDLE");
}
