//! Many responses that nobody reads: what they hold is in the budgets, others are served meanwhile,
//! and the connections that keep parts of dropped responses are closed.

use std::{fs, time::Duration};

use bytes::Bytes;
use capstan::{
    curve::{
        G2Affine,
        points::{PointEncoding, encode},
    },
    server::ServerSettings,
    wire::v1,
};
use futures_util::{future::join_all, stream};
use tempfile::TempDir;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    daemon::{
        compute, load, messages, programs, reason, store, unix_channel, until_idle, until_load,
    },
    sweep,
    table::{Call, World, settings},
};

const CONNECTIONS: usize = 10;
const GETS: usize = 64;
/// More chunks than wait for a reader, with those that the transport holds.
const CHUNKS: usize = 9;
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a vector of that length.
const VECTOR: u64 = (CHUNKS * CHUNK_BYTES) as u64;

/// Opens a connection of which each stream can receive `window` bytes until its reader reads.
async fn connection(world: &World, window: u32) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.daemon.address));
    let endpoint = endpoint.expect("an address").initial_stream_window_size(window);
    endpoint.connect().await.expect("the server accepts")
}

/// Settings of a server whose peers over TCP may use 32 of 64 MiB, and the Unix socket of another
/// tenant.
fn two_tenants(folder: &TempDir, idle_timeout: Duration) -> ServerSettings {
    let (tenants, socket) = (folder.path().join("tenants.toml"), folder.path().join("socket"));
    let uid = rustix::process::getuid().as_raw();
    let limits = "[tenants.default]\nbytes_in_flight_max = \"32 MiB\"\n";
    fs::write(&tenants, format!("{limits}[tenants.other]\ncallers = [\"uid:{uid}\"]\n"))
        .expect("a file");
    ServerSettings {
        tenants: Some(tenants),
        unix_socket: Some(socket),
        idle_timeout,
        peer_bytes_per_second_min: 1 << 20,
        ..settings()
    }
}

/// Stores bases whose encoding has [`CHUNKS`] chunks.
async fn put_bases(channel: &Channel) -> Bytes {
    let points = messages::points::<G2Affine>(8);
    let encoded = encode(PointEncoding::Uncompressed, &points);
    let count = CHUNKS * CHUNK_BYTES / encoded.len() * points.len();
    let data = encoded.repeat(count / points.len());
    let upload = messages::bases::<G2Affine>(PointEncoding::Uncompressed, count as u64);
    let chunks = data.chunks(CHUNK_BYTES).enumerate();
    let chunks = chunks.map(|(i, chunk)| messages::chunk((i * CHUNK_BYTES) as u64, chunk.to_vec()));
    let put = stream::iter(messages::put_bases(upload, chunks.collect()));
    let object = store(channel).put(put).await.expect("good points").into_inner().object;
    match object.expect("an object").kind {
        Some(v1::object::Kind::Bases(bases)) => bases.object_id,
        _ => panic!("not bases"),
    }
}

/// Stores a vector of [`CHUNKS`] chunks.
async fn put_vector(channel: &Channel) -> Bytes {
    let id = messages::id();
    let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, VECTOR / 32);
    let zeros = vec![0; CHUNK_BYTES];
    let chunk = |i| messages::chunk((i * CHUNK_BYTES) as u64, zeros.clone());
    let put = messages::put_vector(vector, (0..CHUNKS).map(chunk).collect());
    store(channel).put(stream::iter(put)).await.expect("room for the vector");
    id
}

fn get_bases(id: &Bytes) -> v1::GetRequest {
    v1::GetRequest {
        id: Some(v1::get_request::Id::ObjectId(id.clone())),
        encoding: Some(messages::point_encoding(PointEncoding::Uncompressed)),
        ..Default::default()
    }
}

fn get_vector(id: &Bytes) -> v1::GetRequest {
    v1::GetRequest { id: Some(v1::get_request::Id::UploadId(id.clone())), ..Default::default() }
}

/// Begins [`GETS`] responses on each of [`CONNECTIONS`] connections and reads none. Returns what
/// keeps them open, and the refusals.
async fn stall(world: &World, window: u32, get: &v1::GetRequest) -> (impl Sized, Vec<Status>) {
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        channels.push(connection(world, window).await);
    }
    let calls = channels.iter().flat_map(|channel| vec![store(channel); GETS]);
    let calls = calls.map(|mut client| {
        let get = get.clone();
        async move { client.get(get).await }
    });
    let answers = join_all(calls).await;
    let (mut unread, mut refused) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(response) => unread.push(response),
            Err(status) => refused.push(status),
        }
    }
    ((channels, unread), refused)
}

/// The content of a response that nobody reads.
#[derive(Debug, Clone, Copy)]
enum Unread {
    Bases,
    Vector,
}

/// Stalls many responses whose streams can receive `window` bytes.
async fn check_unread_objects(unread: Unread, window: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = two_tenants(&folder, Duration::from_secs(2));
    let socket = limits.unix_socket.clone().expect("is set");
    let world = World::new(limits).await;
    let other = unix_channel(&socket).await;
    let (bases, vector) = (put_bases(&world.channel).await, put_vector(&world.channel).await);
    let name = format!("{unread:?}, window {window}");
    let get = match unread {
        Unread::Bases => get_bases(&bases),
        Unread::Vector => get_vector(&vector),
    };
    let (stalled, refused) = stall(&world, window, &get).await;
    assert!(!refused.is_empty(), "{name}: all are accepted");
    for status in refused {
        let got = (status.code(), &*reason(&status));
        assert_eq!(got, (Code::ResourceExhausted, "TENANT_QUOTA"), "{name}: {status}");
    }
    // The other tenant has no bases. It sends and reads a vector.
    let id = put_vector(&other).await;
    let read = Call::Get(get_vector(&id)).send(&other).await.expect("has its own budget");
    assert_eq!(read.len() as u64, VECTOR, "{name}");
    let release = v1::release_request::Id::UploadId(id);
    let release = v1::ReleaseRequest { id: Some(release) };
    store(&other).release(release).await.expect("was held");
    // The server closes the connections of unread responses; the vector stays.
    until_load(&world.channel, &name, |load| load.bytes_in_flight == VECTOR).await;
    world.resources.assert_within(&name);
    drop(stalled);
    let release = v1::release_request::Id::UploadId(vector);
    let release = v1::ReleaseRequest { id: Some(release) };
    store(&world.channel).release(release).await.expect("is still there");
    world.assert_healthy("unread objects").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_objects_stay_within_the_budget_and_others_are_served() {
    check_unread_objects(Unread::Bases, 0).await;
    check_unread_objects(Unread::Vector, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sweep"]
async fn unread_objects_stay_within_the_budget_with_every_window() {
    let all = [Unread::Bases, Unread::Vector].into_iter();
    let all = all.flat_map(|unread| [0, 1].map(|window| (unread, window)));
    for (unread, window) in sweep::cases("unread objects", all) {
        check_unread_objects(unread, window).await;
    }
}

/// Waits until responses that nobody reads are counted, then until their connection is closed.
async fn assert_counted_and_closed(world: &World, name: &str) {
    until_load(&world.channel, name, |load| load.bytes_in_flight > 0).await;
    until_load(&world.channel, name, |load| load.jobs == 0 && load.connections == 1).await;
    until_idle(&world.channel, name).await;
}

/// A result that fits in the transport's buffers.
#[derive(Debug, Clone, Copy)]
enum SmallResult {
    /// 2048 sums of 96 bytes.
    Sums,
    Rows,
    /// A vector of a run, which is streamed.
    Vector,
}

async fn check_unread_result(world: &World, result: SmallResult, window: u32) {
    let stalled = connection(world, window).await;
    let name = format!("{result:?}, window {window}");
    match result {
        SmallResult::Sums => {
            let spec = v1::MsmSpec {
                batch: 2048,
                group: v1::Group::G1 as i32,
                bases: Some(messages::stored(&world.g1_id, 0, 1)),
                result_encoding: v1::ResultEncoding::Uncompressed as i32,
                ..world.spec()
            };
            let scalars = messages::scalars(v1::ScalarEncoding::U8, vec![1; 2048]);
            let (mut client, request) = (compute(&stalled), messages::msm(spec, scalars));
            let unread = tokio::spawn(async move { client.msm(request).await });
            assert_counted_and_closed(world, &name).await;
            unread.abort();
        }
        SmallResult::Rows => {
            let data = vec![0; 32 << 12];
            let input = messages::scalars(v1::ScalarEncoding::Canonical, data);
            let (mut client, request) =
                (compute(&stalled), messages::ntt(messages::ntt_spec(12), input));
            let unread = tokio::spawn(async move { client.ntt(request).await });
            assert_counted_and_closed(world, &name).await;
            unread.abort();
        }
        SmallResult::Vector => {
            let operations = [programs::input(1, 1 << 10), programs::pad(0, 1 << 12)];
            let input = programs::inline(&messages::random(1 << 10));
            let header = programs::call(operations, vec![input], vec![programs::send(1)]);
            let run = compute(&stalled).run(stream::iter(programs::run(header, vec![]))).await;
            let run = run.expect("the response begins");
            assert_counted_and_closed(world, &name).await;
            drop(run);
        }
    }
}

async fn check_unread_results(all: impl IntoIterator<Item = (SmallResult, u32)>) {
    let idle_timeout = Duration::from_millis(500);
    let limits = ServerSettings { idle_timeout, peer_bytes_per_second_min: 1 << 20, ..settings() };
    let world = World::new(limits).await;
    for (result, window) in all {
        check_unread_result(&world, result, window).await;
    }
    world.assert_healthy("unread results").await;
}

/// The transport's buffers hold the results of unary calls and of short streamed ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_results_are_counted_until_their_connection_is_closed() {
    use SmallResult::{Rows, Sums, Vector};
    check_unread_results([(Sums, 0), (Rows, 1), (Vector, 0)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sweep"]
async fn unread_results_are_counted_with_every_window() {
    let all = [SmallResult::Sums, SmallResult::Rows, SmallResult::Vector].into_iter();
    let all = all.flat_map(|result| [0, 1].map(|window| (result, window)));
    check_unread_results(sweep::cases("unread results", all)).await;
}

/// A connection of which one response stalls serves other calls until it is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_serves_other_calls_while_a_response_stalls() {
    let world = World::new(settings()).await;
    let channel = connection(&world, 1 << 16).await;
    let id = put_vector(&world.channel).await;
    let mut unread = store(&channel).get(get_vector(&id)).await.expect("begins").into_inner();
    assert!(unread.message().await.expect("room for a chunk").is_some());
    for _ in 0..10 {
        let (request, sum) = world.good_msm();
        assert_eq!(Call::Msm(request).send(&channel).await.expect("is served"), sum);
    }
    let during = load(&world.channel).await;
    assert!(during.bytes_in_flight > VECTOR && during.connections == 2, "{during:?}");
    drop(unread);
    let name = "a response that its reader has left";
    until_load(&world.channel, name, |load| load.bytes_in_flight == VECTOR).await;
    assert_eq!(load(&world.channel).await.connections, 2);
}
