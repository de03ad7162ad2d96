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
    Daemon, HANGING, admin, compute,
    engine::{Dial, Mode, moody},
    load, reason, retry_after, say, unix_channel,
};

/// Beyond the grace period, on a machine that has other things to do.
const GENEROUS: Duration = Duration::from_secs(5);

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
    while load(channel).await.jobs == 0 {
        tokio::task::yield_now().await;
    }
    call
}

/// Waits until the server has drained; gives how long it took.
async fn ended(mut daemon: Daemon) -> Duration {
    let begun = Instant::now();
    let end = tokio::task::spawn_blocking(move || daemon.ended());
    let end = tokio::time::timeout(HANGING, end).await.expect("the server ends");
    end.expect("no panic").expect("the server ends well");
    begun.elapsed()
}

async fn assert_refuses_and_finishes(daemon: Daemon, channel: &Channel, dial: &Dial, call: Answer) {
    while health(channel).await != ServingStatus::NotServing {
        tokio::task::yield_now().await;
    }
    let refused = compute(channel).msm(request()).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "DRAINING"));
    assert!(retry_after(&refused).is_some());
    let info = admin(channel).get_info(v1::GetInfoRequest {}).await.unwrap().into_inner();
    assert!(info.draining);
    assert!(!call.is_finished());
    dial.set(Mode::Honest);
    let answer = call.await.unwrap().expect("what was accepted is done").into_inner();
    assert_eq!(answer.result.unwrap().points, sum());
    let took = ended(daemon).await;
    assert!(took < GENEROUS, "took {took:?}, and nothing was left to do");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_server_finishes_what_it_accepted_and_takes_nothing_new() {
    let (engines, dial) = moody();
    let daemon = Daemon::with_engines(Settings::default(), engines);
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
    let settings = Settings { unix_socket: Some(path.clone()), ..Settings::default() };
    let daemon = Daemon::with_engines(settings, engines);
    let (channel, local) = (daemon.channel().await, unix_channel(&path).await);
    let call = accepted(&channel, &dial).await;
    let drained = admin(&local).drain(v1::DrainRequest { grace_ms: 20_000 }).await.unwrap();
    assert_eq!(drained.into_inner().jobs, 1);
    assert_refuses_and_finishes(daemon, &channel, &dial, call).await;
    assert!(!path.exists(), "the socket's file is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_cannot_hold_the_exit() {
    let handshake_timeout = Duration::from_secs(60);
    let daemon = Daemon::start(Settings { handshake_timeout, ..Settings::default() });
    let silent = TcpStream::connect(daemon.address).await.unwrap();
    let idle = daemon.channel().await;
    while load(&idle).await.connections < 2 {
        tokio::task::yield_now().await;
    }
    daemon.drainer.drain(None);
    let took = ended(daemon).await;
    assert!(took < GENEROUS, "took {took:?} with nothing to do");
    drop((silent, idle));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_outlives_the_grace_period_is_cut_off() {
    let (engines, dial) = moody();
    let daemon = Daemon::with_engines(Settings::default(), engines);
    let call = accepted(&daemon.channel().await, &dial).await;
    let grace = Duration::from_millis(300);
    daemon.drainer.drain(Some(grace));
    let took = ended(daemon).await;
    assert!(took >= grace && took < grace + GENEROUS, "took {took:?}");
    call.await.unwrap().expect_err("was cut off");
    dial.set(Mode::Honest);
}
