//! Going down: nothing accepted is lost, nothing new is taken, nobody can hold the exit.

use std::time::{Duration, Instant};

use capstan::{
    curve::{Fr, G1Affine},
    server::Settings,
    wire::v1,
};
use tokio::net::TcpStream;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::daemon::{
    Daemon, NEVER, admin, compute,
    engine::{Dial, Mode, moody},
    reason, retry_after, say, unix_channel, until, until_load,
};

/// A server that has time for what it accepted, and for slow peers, for longer than a test takes:
/// one that ends has not waited for them.
fn settings() -> Settings {
    Settings { drain_grace: NEVER, handshake_timeout: NEVER, ..Settings::default() }
}

fn request() -> v1::MsmRequest {
    let spec = say::spec(v1::Group::G1 as i32, say::inline(&say::points::<G1Affine>(2)));
    say::msm(spec, say::scalars(v1::ScalarEncoding::U8, vec![2, 3]))
}

fn sum() -> bytes::Bytes {
    let scalars = [Fr::from(2), Fr::from(3)];
    say::compressed::<G1Affine>(say::sum(&say::points::<G1Affine>(2), &scalars))
}

async fn health(channel: &Channel) -> ServingStatus {
    let answer = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    answer.expect("answers").into_inner().status()
}

type Answer = tokio::task::JoinHandle<Result<tonic::Response<v1::MsmResponse>, tonic::Status>>;

/// A job that was accepted, and whose engine does not end it.
async fn accepted(channel: &Channel, dial: &Dial) -> Answer {
    dial.set(Mode::Hangs);
    let mut client = compute(channel);
    let call = tokio::spawn(async move { client.msm(request()).await });
    until_load(channel, "a job is accepted", |load| load.jobs == 1).await;
    call
}

async fn assert_refuses_and_finishes(daemon: Daemon, channel: &Channel, dial: &Dial, call: Answer) {
    let down = async || match health(channel).await {
        ServingStatus::NotServing => Ok(()),
        other => Err(other),
    };
    until("not serving", down).await;
    let refused = compute(channel).msm(request()).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "DRAINING"));
    assert!(retry_after(&refused).is_some());
    let info = admin(channel).get_info(v1::GetInfoRequest {}).await.unwrap().into_inner();
    assert!(info.draining);
    assert!(!call.is_finished());
    dial.set(Mode::Honest);
    let answer = call.await.unwrap().expect("what was accepted is done").into_inner();
    assert_eq!(answer.result.unwrap().points, sum());
    daemon.ended().await.expect("the server ends well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_server_finishes_what_it_accepted_and_takes_nothing_new() {
    let (engines, dial) = moody();
    let daemon = Daemon::with_engines(settings(), engines);
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
    let (engines, dial) = moody();
    let settings = Settings { unix_socket: Some(path.clone()), ..settings() };
    let daemon = Daemon::with_engines(settings, engines);
    let (channel, local) = (daemon.channel().await, unix_channel(&path).await);
    let call = accepted(&channel, &dial).await;
    let request = v1::DrainRequest { grace_ms: NEVER.as_millis() as u64 };
    let drained = admin(&local).drain(request).await.unwrap();
    assert_eq!(drained.into_inner().jobs, 1);
    assert_refuses_and_finishes(daemon, &channel, &dial, call).await;
    assert!(!path.exists(), "the socket's file is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_cannot_hold_the_exit() {
    let daemon = Daemon::start(settings());
    let silent = TcpStream::connect(daemon.address).await.unwrap();
    let idle = daemon.channel().await;
    until_load(&idle, "two connections", |load| load.connections == 2).await;
    daemon.drainer.drain(None);
    daemon.ended().await.expect("the server ends well");
    drop((silent, idle));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_outlives_the_grace_period_is_cut_off() {
    let (engines, dial) = moody();
    let daemon = Daemon::with_engines(settings(), engines);
    let call = accepted(&daemon.channel().await, &dial).await;
    let (grace, begun) = (Duration::from_millis(300), Instant::now());
    daemon.drainer.drain(Some(grace));
    daemon.ended().await.expect("the server ends well");
    // A machine that is late ends it no sooner.
    assert!(begun.elapsed() >= grace, "cut off before the grace period's end");
    call.await.unwrap().expect_err("was cut off");
    dial.set(Mode::Honest);
}
