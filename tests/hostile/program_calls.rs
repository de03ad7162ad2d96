//! Calls of programs that end early, or whose ids are taken. The server frees memory and permits.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    server::ServerSettings,
    wire::v1::{self, compute_client::ComputeClient},
};
use futures_util::{StreamExt, stream};
use tonic::Code;

use crate::{
    cancel::{Calls, abort_once_held, assert_deadline, within},
    daemon::{
        client_without_deadlines, compute, faulty_engine::EngineMode, messages, programs,
        retry_until_ok, store, until_idle, until_load,
    },
    table::{Call, World, assert_status, settings},
};

/// A transform of two elements, and these elements as an upload.
fn transform(delivery: v1::ProgramOutput) -> v1::RunHeader {
    let steps = [programs::input(1, 2), programs::ntt(0, 1)];
    programs::call(steps, vec![programs::new_upload(2)], vec![delivery])
}

fn elements(bytes: usize) -> Vec<v1::RunRequest> {
    vec![programs::chunk(0, 0, vec![0; bytes])]
}

/// Starts calls whose request streams do not end.
fn begin(world: &World, count: usize, bytes: usize) -> Calls {
    let call = |_| {
        let mut client = compute(&world.channel);
        let messages = programs::run(transform(programs::send(1)), elements(bytes));
        let messages = stream::iter(messages).chain(stream::pending());
        tokio::spawn(async move { client.run(messages).await.map(drop) })
    };
    (0..count).map(call).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_frees_its_program() {
    let idle_timeout = Duration::from_millis(300);
    let world = World::new(ServerSettings { idle_timeout, workers: 1, ..settings() }).await;
    let half = || begin(&world, 1, 32);
    abort_once_held(&world, "mid-upload", |load| load.jobs == 1, half).await;
    world.assert_healthy("gone mid-upload").await;
    world.dial.set(EngineMode::Hangs);
    let three = || begin(&world, 3, 64);
    abort_once_held(&world, "running and queued", |load| load.jobs == 3, three).await;
    // The engine stops at its next check for cancellation, so the dial need not change.
    until_idle(&world.channel, "gone while queued and running").await;
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("gone while queued and running").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_hold_while_uploading_and_running() {
    let world = World::new(ServerSettings { workers: 1, ..settings() }).await;
    world.dial.set(EngineMode::Hangs);
    let client = || {
        let (client, origin) = client_without_deadlines(world.daemon.address);
        ComputeClient::with_origin(client, origin)
    };
    let request = |bytes| {
        let messages = programs::run(transform(programs::send(1)), elements(bytes));
        stream::iter(messages).chain(stream::pending())
    };
    let (mut running, mut sending) = (client(), client());
    let (first, second) = tokio::join!(
        running.run(within("400m", request(64))),
        sending.run(within("250m", request(32))),
    );
    assert_deadline("running", first.map(drop));
    assert_deadline("sending", second.map(drop));
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("deadlines").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_sender_is_given_up() {
    let idle_timeout = Duration::from_millis(200);
    let world = World::new(ServerSettings { idle_timeout, ..settings() }).await;
    for bytes in [0, 32] {
        let calls = begin(&world, 1, bytes);
        for call in calls {
            let status = call.await.unwrap().unwrap_err();
            assert_status("a silent sender", &status, Code::DeadlineExceeded, "IDLE");
        }
    }
    world.assert_healthy("a silent sender").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_fails_fails_the_call_only() {
    let world = World::new(settings()).await;
    let run = async || {
        let messages = programs::run(transform(programs::send(1)), elements(64));
        programs::send_run(&world.channel, messages).await
    };
    world.dial.set(EngineMode::Panics);
    let status = run().await.unwrap_err();
    assert_status("a panic", &status, Code::Internal, "INTERNAL");
    world.dial.set(EngineMode::Honest);
    assert!(run().await.unwrap().vectors[&0] == [0; 64]);
    world.assert_healthy("a panic").await;
}

/// Puts half of a vector of two elements.
async fn put_half(world: &World, id: &Bytes) {
    let vector = messages::vector(id, v1::ScalarEncoding::Canonical, 2);
    let messages = messages::put_vector(vector, vec![messages::chunk(0, vec![0; 32])]);
    let mut client = store(&world.channel);
    let messages = stream::iter(messages).chain(stream::pending());
    let call = tokio::spawn(async move { client.put(messages).await.map(drop) });
    let stat = || {
        let id = Some(v1::stat_request::Id::UploadId(id.clone()));
        Call::Stat(v1::StatRequest { id }).send(&world.channel)
    };
    retry_until_ok("half of a vector", async || stat().await).await;
    call.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_in_progress_is_not_replaced() {
    let world = World::new(ServerSettings { workers: 1, ..settings() }).await;
    let id = messages::id();
    let run = |bytes| {
        let messages = programs::run(transform(programs::keep(1, &id)), elements(bytes));
        programs::send_run(&world.channel, messages)
    };
    put_half(&world, &id).await;
    let status = run(64).await.unwrap_err();
    assert_status("taken before", &status, Code::Aborted, "UPLOAD_CONFLICT");
    let release = || {
        let id = Some(v1::release_request::Id::UploadId(id.clone()));
        Call::Release(v1::ReleaseRequest { id }).send(&world.channel)
    };
    release().await.unwrap();
    until_idle(&world.channel, "the upload is released").await;
    // The id is taken while the job runs.
    world.dial.set(EngineMode::Hangs);
    let running = run(64);
    let taken = async {
        until_load(&world.channel, "running", |load| load.jobs == 1).await;
        put_half(&world, &id).await;
        world.dial.set(EngineMode::Honest);
    };
    let (answer, ()) = tokio::join!(running, taken);
    let status = answer.unwrap_err();
    assert_status("taken meanwhile", &status, Code::Aborted, "UPLOAD_CONFLICT");
    release().await.unwrap();
    world.assert_healthy("ids in use").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_vectors_count_as_vectors_of_the_server() {
    let world = World::new(ServerSettings { uploads_max: 2, ..settings() }).await;
    let ids = [messages::id(), messages::id(), messages::id()];
    let steps = [programs::input(1, 1)];
    let outputs = |ids: &[Bytes]| ids.iter().map(|id| programs::keep(0, id)).collect();
    let run = |ids: &[Bytes]| {
        let inputs = vec![programs::inline(&[1.into()])];
        let header = programs::call(steps.clone(), inputs, outputs(ids));
        programs::send_run(&world.channel, programs::run(header, vec![]))
    };
    let status = run(&ids).await.unwrap_err();
    assert_status("three of two", &status, Code::ResourceExhausted, "UPLOADS");
    until_idle(&world.channel, "three of two").await;
    run(&ids[..2]).await.unwrap();
    let status = run(&ids[2..]).await.unwrap_err();
    assert_status("a third vector", &status, Code::ResourceExhausted, "UPLOADS");
    for id in &ids[..2] {
        let id = Some(v1::release_request::Id::UploadId(id.clone()));
        Call::Release(v1::ReleaseRequest { id }).send(&world.channel).await.unwrap();
    }
    run(&ids[2..]).await.unwrap();
    let id = Some(v1::release_request::Id::UploadId(ids[2].clone()));
    Call::Release(v1::ReleaseRequest { id }).send(&world.channel).await.unwrap();
    world.assert_healthy("kept vectors").await;
}
