//! Callers that disconnect and deadlines that pass: during the upload, in the queue, during the
//! computation. The server frees memory and permits each time.

use std::time::Duration;

use capstan::{
    server::ServerSettings,
    wire::v1::{self, compute_client::ComputeClient},
};
use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::{
    daemon::{
        client_without_deadlines, compute, faulty_engine::EngineMode, load, messages,
        retry_until_ok, store, until_idle, until_load,
    },
    table::{Call, World, assert_status, settings},
};

pub type Calls = Vec<JoinHandle<Result<(), Status>>>;

/// Makes calls and aborts them once the server holds them. Repeats them if the idle timeout ended
/// one first because this thread was too slow.
pub async fn abort_once_held(
    world: &World,
    name: &str,
    held: impl Fn(&v1::Load) -> bool,
    call: impl Fn() -> Calls,
) {
    retry_until_ok(name, async || {
        let calls = call();
        let seen = retry_until_ok(name, async || match load(&world.channel).await {
            load if held(&load) => Ok(true),
            _ if calls.iter().any(JoinHandle::is_finished) => Ok(false),
            load => Err(load),
        });
        let seen = seen.await;
        calls.iter().for_each(JoinHandle::abort);
        if seen { Ok(()) } else { Err("a call ended first") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_caller_leaves_no_memory_behind() {
    let idle_timeout = Duration::from_millis(300);
    let world = World::new(ServerSettings { idle_timeout, workers: 1, ..settings() }).await;
    let vector = || messages::new_vector(v1::ScalarEncoding::U64, 8);
    let half = || vec![messages::chunk(0, vec![1; 32])];
    let stream_a_job = || {
        let mut client = compute(&world.channel);
        let messages = messages::msm_stream(world.spec(), vector(), half());
        let messages = stream::iter(messages).chain(stream::pending());
        vec![tokio::spawn(async move { client.msm_stream(messages).await.map(drop) })]
    };
    abort_once_held(&world, "mid-upload", |load| load.jobs == 1, stream_a_job).await;
    world.assert_healthy("gone mid-upload").await;

    let put = || {
        let mut client = store(&world.channel);
        let messages =
            stream::iter(messages::put_vector(vector(), half())).chain(stream::pending());
        vec![tokio::spawn(async move { client.put(messages).await.map(drop) })]
    };
    abort_once_held(&world, "mid-put", |load| load.bytes_in_flight > 0, put).await;
    world.assert_healthy("gone mid-put").await;

    world.dial.set(EngineMode::Hangs);
    let call = |_| {
        let (mut client, (request, _)) = (compute(&world.channel), world.good_msm());
        tokio::spawn(async move { client.msm(request).await.map(drop) })
    };
    let three = || (0..3).map(call).collect();
    abort_once_held(&world, "running and queued", |load| load.jobs == 3, three).await;
    // The engine stops at its next check for cancellation, so the dial need not change.
    until_idle(&world.channel, "gone while queued and running").await;
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("gone while queued and running").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_frees_its_jobs() {
    let world = World::new(ServerSettings { workers: 1, ..settings() }).await;
    world.dial.set(EngineMode::Hangs);
    let channel = world.daemon.channel().await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (mut client, (request, _)) = (compute(&channel), world.good_msm());
            tokio::spawn(async move { client.msm(request).await })
        })
        .collect();
    drop(channel);
    until_load(&world.channel, "running and queued", |load| load.jobs == 3).await;
    calls.iter().for_each(|call| call.abort());
    until_idle(&world.channel, "a broken connection").await;
    until_load(&world.channel, "the connection is gone", |load| load.connections == 1).await;
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("a broken connection").await;
}

pub fn within<T>(time: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
    request
}

pub fn assert_deadline(name: &str, sent: Result<(), Status>) {
    let status = sent.expect_err(name);
    assert_status(name, &status, Code::DeadlineExceeded, "DEADLINE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_hold_while_uploading_queued_and_running() {
    let world = World::new(ServerSettings { workers: 1, ..settings() }).await;
    world.dial.set(EngineMode::Hangs);
    let client_without_deadlines = || {
        let (client, origin) = client_without_deadlines(world.daemon.address);
        ComputeClient::with_origin(client, origin)
    };
    let mut clients: Vec<_> = (0..4).map(|_| client_without_deadlines()).collect();
    let [running, queued, sending, transform] = &mut clients[..] else { panic!("four") };
    let (request, _) = world.good_msm();
    let id = messages::id();
    let vector = messages::vector(&id, v1::ScalarEncoding::U8, 8);
    let messages = messages::msm_stream(world.spec(), vector, vec![messages::chunk(0, vec![1; 4])]);
    let silent = stream::iter(messages).chain(stream::pending());
    let zeros = messages::scalars(v1::ScalarEncoding::Canonical, vec![0; 64]);
    let (first, second, third, fourth) = tokio::join!(
        running.msm(within("400m", request.clone())),
        queued.msm(within("300000u", request.clone())),
        sending.msm_stream(within("250m", silent)),
        transform.ntt(within("350m", messages::ntt(messages::ntt_spec(1), zeros))),
    );
    assert_deadline("running", first.map(drop));
    assert_deadline("queued", second.map(drop));
    assert_deadline("sending", third.map(drop));
    assert_deadline("a transform", fourth.map(drop));
    // The partial upload is kept for resuming, unless its header came after the deadline.
    let id = Some(v1::release_request::Id::UploadId(id));
    if let Err(status) = Call::Release(v1::ReleaseRequest { id }).send(&world.channel).await {
        assert_status("a late header", &status, Code::NotFound, "OBJECT_UNKNOWN");
    }
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("deadlines").await;
    for time in ["0n", "0H", "1n"] {
        let sent = running.msm(within(time, request.clone())).await;
        assert_deadline(time, sent.map(drop));
    }
    for time in
        ["99999999H", "1H", "99999999M", "99999999S", "99999999m", "nonsense", "H", "123456789n"]
    {
        let sent = running.msm(within(time, request.clone())).await;
        sent.unwrap_or_else(|status| panic!("{time}: {status}"));
    }
    world.assert_healthy("long deadlines").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_completes_after_its_inputs_are_released() {
    let world = World::new(ServerSettings { workers: 1, ..settings() }).await;
    let id = messages::id();
    let vector = messages::vector(&id, v1::ScalarEncoding::U8, 8);
    let put = Call::put_vector(vector, vec![messages::chunk(0, vec![1; 8])]);
    put.send(&world.channel).await.unwrap();
    world.dial.set(EngineMode::Hangs);
    let mut client = compute(&world.channel);
    let request = messages::msm_on(world.spec(), &id);
    let call = tokio::spawn(async move { client.msm(request).await });
    until_load(&world.channel, "running", |load| load.jobs == 1).await;
    let release = |id| Call::Release(v1::ReleaseRequest { id: Some(id) });
    let vector = || v1::release_request::Id::UploadId(id.clone());
    let bases = || v1::release_request::Id::ObjectId(world.g1_id.clone());
    for id in [vector(), bases()] {
        release(id).send(&world.channel).await.unwrap();
    }
    for id in [vector(), bases()] {
        let again = release(id).send(&world.channel).await.unwrap_err();
        assert_status("released twice", &again, Code::NotFound, "OBJECT_UNKNOWN");
    }
    world.dial.set(EngineMode::Honest);
    let answer = call.await.unwrap().unwrap().into_inner();
    let ones = [capstan::curve::Fr::from(1); 8];
    let sum = messages::compressed::<capstan::curve::G1Affine>(messages::sum(&world.g1, &ones));
    assert_eq!(answer.result.unwrap().points, sum);
    until_idle(&world.channel, "released in use").await;
    until_load(&world.channel, "only G2 is left", |load| load.store_bytes == 4096).await;
}
