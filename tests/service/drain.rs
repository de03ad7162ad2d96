//! Draining: accepted work completes, new work is refused, no client delays the exit, and clients
//! move to other servers.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use capstan::{
    client::Client,
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::service::{
    daemon::{
        TEST_TIMEOUT, TestServer, UNREACHED_LIMIT, admin, compute,
        faulty_engine::{EngineMode, FaultDial, faulty_engines},
        messages, reason, retry_after, retry_until_ok, unix_channel, until_load,
    },
    sparse_inputs::sparse_points,
};

/// A grace period and a handshake timeout longer than any test: a server that ends has not waited
/// for either to expire.
fn settings() -> ServerSettings {
    ServerSettings {
        drain_grace: UNREACHED_LIMIT,
        handshake_timeout: UNREACHED_LIMIT,
        ..ServerSettings::default()
    }
}

fn request() -> v1::MsmRequest {
    let spec =
        messages::spec(v1::Group::G1 as i32, messages::inline(&messages::points::<G1Affine>(2)));
    messages::msm(spec, messages::scalars(v1::ScalarEncoding::U8, vec![2, 3]))
}

fn sum() -> bytes::Bytes {
    let scalars = [Fr::from(2), Fr::from(3)];
    messages::compressed::<G1Affine>(messages::sum(&messages::points::<G1Affine>(2), &scalars))
}

/// The server's answer to a call. Calls again if the call was too late for its connection, which a
/// draining server closes.
async fn answer<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    let sent = async || match call().await {
        Err(status) if reason(&status).is_empty() => Err(status),
        answer => Ok(answer),
    };
    retry_until_ok("an answer from the server", sent).await
}

async fn health(channel: &Channel) -> ServingStatus {
    let request = HealthCheckRequest::default();
    let check = async || HealthClient::new(channel.clone()).check(request.clone()).await;
    answer(check).await.expect("answers").into_inner().status()
}

type Answer = tokio::task::JoinHandle<Result<tonic::Response<v1::MsmResponse>, tonic::Status>>;

/// Starts a job and waits until the server has accepted it; the engine hangs.
async fn accepted(channel: &Channel, dial: &FaultDial) -> Answer {
    dial.set(EngineMode::Hangs);
    let mut client = compute(channel);
    let call = tokio::spawn(async move { client.msm(request()).await });
    until_load(channel, "a job is accepted", |load| load.jobs == 1).await;
    call
}

async fn assert_refuses_and_finishes(
    daemon: TestServer,
    channel: &Channel,
    dial: &FaultDial,
    call: Answer,
) {
    let down = async || match health(channel).await {
        ServingStatus::NotServing => Ok(()),
        other => Err(other),
    };
    retry_until_ok("not serving", down).await;
    let refused = answer(async || compute(channel).msm(request()).await).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "DRAINING"));
    assert!(retry_after(&refused).is_some());
    let info = answer(async || admin(channel).get_info(v1::GetInfoRequest {}).await).await;
    assert!(info.unwrap().into_inner().draining);
    assert!(!call.is_finished());
    dial.set(EngineMode::Honest);
    let answer = call.await.unwrap().expect("an accepted job completes").into_inner();
    assert_eq!(answer.result.unwrap().points, sum());
    daemon.ended().await.expect("the server ends without an error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_an_unknown_service_is_told_so_and_stays_open() {
    let daemon = TestServer::start(settings());
    let channel = daemon.channel().await;
    let watch = async |service: &str| {
        let request = HealthCheckRequest { service: service.into() };
        let watched = HealthClient::new(channel.clone()).watch(request).await;
        let mut watched = watched.expect("the call begins").into_inner();
        let first = watched.message().await.expect("the call goes on").expect("a status");
        (first.status(), watched)
    };
    let (status, mut unknown) = watch("capstan.v2.Compute").await;
    assert_eq!(status, ServingStatus::ServiceUnknown);
    let (status, mut known) = watch("capstan.v1.Compute").await;
    assert_eq!(status, ServingStatus::Serving);
    // When the other watch hears that the server drains, this one is still open.
    daemon.drainer.drain(None);
    // A status can be told again if it was set again when the watch began.
    let drains = async {
        loop {
            let told = known.message().await.expect("the call goes on").expect("a status");
            if told.status() != ServingStatus::Serving {
                break told.status();
            }
        }
    };
    let told = tokio::select! {
        end = unknown.message() => panic!("the watch has ended: {end:?}"),
        told = drains => told,
    };
    assert_eq!(told, ServingStatus::NotServing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_finishes_accepted_jobs_and_refuses_new_ones() {
    let (engines, dial) = faulty_engines();
    let daemon = TestServer::with_engines(settings(), engines);
    let channel = daemon.channel().await;
    assert_eq!(health(&channel).await, ServingStatus::Serving);
    let call = accepted(&channel, &dial).await;
    daemon.drainer.drain(None);
    assert_refuses_and_finishes(daemon, &channel, &dial, call).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_drains_over_the_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capstan.sock");
    let (engines, dial) = faulty_engines();
    let settings = ServerSettings { unix_socket: Some(path.clone()), ..settings() };
    let daemon = TestServer::with_engines(settings, engines);
    let (channel, local) = (daemon.channel().await, unix_channel(&path).await);
    let call = accepted(&channel, &dial).await;
    let request = v1::DrainRequest { grace_ms: UNREACHED_LIMIT.as_millis() as u64 };
    let drained = admin(&local).drain(request).await.unwrap();
    assert_eq!(drained.into_inner().jobs, 1);
    assert_refuses_and_finishes(daemon, &channel, &dial, call).await;
    assert!(!path.exists(), "the socket's file is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_cannot_delay_the_exit() {
    let daemon = TestServer::start(settings());
    let silent = TcpStream::connect(daemon.address).await.unwrap();
    let idle = daemon.channel().await;
    until_load(&idle, "two connections", |load| load.connections == 2).await;
    daemon.drainer.drain(None);
    daemon.ended().await.expect("the server ends without an error");
    drop((silent, idle));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_exceeds_the_grace_period_is_cut_off() {
    let (engines, dial) = faulty_engines();
    let daemon = TestServer::with_engines(settings(), engines);
    let call = accepted(&daemon.channel().await, &dial).await;
    let (grace, begun) = (Duration::from_millis(300), Instant::now());
    daemon.drainer.drain(Some(grace));
    daemon.ended().await.expect("the server ends without an error");
    // A slow machine only delays the cutoff.
    assert!(begun.elapsed() >= grace, "cut off before the grace period's end");
    call.await.unwrap().expect_err("was cut off");
    dial.set(EngineMode::Honest);
}

/// Several servers behind one address: new connections go to the chosen ones, in turn.
struct Balancer {
    target: String,
    chosen: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    async fn start(first: &TestServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap());
        let chosen = Arc::new(Mutex::new(vec![first.address]));
        let servers = chosen.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let address = {
                    let mut servers = servers.lock().unwrap();
                    servers.rotate_left(1);
                    servers[0]
                };
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(address).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Self { target, chosen }
    }

    fn choose(&self, servers: &[&TestServer]) {
        *self.chosen.lock().unwrap() = servers.iter().map(|server| server.address).collect();
    }

    async fn client(&self) -> Client {
        // More retries than the test can use. A draining server may close the connection before
        // the client has its first answer.
        let builder = Client::builder(&self.target).connections(1).retries(1000);
        retry_until_ok("a client", async || builder.clone().connect().await).await
    }
}

/// Runs a small job; fails if no server accepts it.
async fn assert_served(client: &Client) {
    let (points, scalars) = (messages::points::<G1Affine>(2), [Fr::from(2), Fr::from(3)]);
    let served = timeout(TEST_TIMEOUT, client.msm_inline(&points, &scalars)).await;
    let sum = served.expect("a server accepts it").expect("succeeds");
    assert_eq!(sum, messages::sum(&points, &scalars));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_draining_server_moves_to_another_one() {
    let (engines, dial) = faulty_engines();
    let (first, second) = (
        TestServer::with_engines(settings(), engines),
        TestServer::start(ServerSettings::default()),
    );
    let balancer = Balancer::start(&first).await;
    let client = balancer.client().await;
    dial.set(EngineMode::Hangs);
    let running = client.clone();
    let running = tokio::spawn(async move { assert_served(&running).await });
    until_load(&first.channel().await, "a job is accepted", |load| load.jobs == 1).await;
    first.drainer.drain(None);
    // The balancer notices the drain late: a new client still reaches the draining server.
    let late = balancer.client().await;
    balancer.choose(&[&second]);
    assert_served(&client).await;
    assert_served(&late).await;
    assert!(!running.is_finished());
    dial.set(EngineMode::Honest);
    running.await.expect("the call ends on its old connection");
    first.ended().await.expect("the server ends without an error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_keeps_to_one_of_several_servers() {
    let servers = [(); 2].map(|()| TestServer::start(ServerSettings::default()));
    let balancer = Balancer::start(&servers[0]).await;
    balancer.choose(&servers.each_ref());
    let client = Client::connect(&balancer.target).await.unwrap();
    // 6 MiB, over several connections.
    let points = sparse_points::<G1Affine>(1 << 16, messages::points);
    let bases = client.put_bases(&points).await.unwrap().slice(0, 100).unwrap();
    let scalars = messages::random(1 << 16);
    let sum = messages::sum(&points[..100], &scalars[..100]);
    for _ in 0..8 {
        assert_eq!(client.msm(&bases, &scalars[..100]).await.unwrap(), sum);
        let vector = client.put_vector(&scalars).await.unwrap();
        client.release_vector(vector.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_waits_for_slow_readers() {
    const LG_N: u32 = 16;
    let daemon = TestServer::start(ServerSettings { idle_timeout: UNREACHED_LIMIT, ..settings() });
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.address)).unwrap();
    // Small windows, so that the transport buffers little ahead of the reader.
    let endpoint = endpoint.initial_stream_window_size(1 << 16);
    let channel = endpoint.initial_connection_window_size(1 << 16).connect().await.unwrap();
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 1 << LG_N);
    let chunks = (0..1 << (LG_N - 10)).map(|i| messages::chunk(i << 15, vec![0; 1 << 15]));
    let messages = messages::ntt_stream(messages::ntt_spec(LG_N), vector, chunks.collect());
    let rows = compute(&channel).ntt_stream(stream::iter(messages)).await.unwrap();
    daemon.drainer.drain(None);
    // Longer than a draining server waits for idle connections.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (mut rows, mut bytes, mut summary) = (rows.into_inner(), 0, false);
    while let Some(message) = rows.message().await.expect("the whole answer arrives") {
        match message.message {
            Some(v1::ntt_stream_response::Message::Chunk(chunk)) => bytes += chunk.data.len(),
            other => summary |= other.is_some(),
        }
    }
    assert_eq!((bytes, summary), (32 << LG_N, true));
    daemon.ended().await.expect("the server ends without an error");
}
