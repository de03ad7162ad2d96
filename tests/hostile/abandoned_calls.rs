//! Streamed jobs whose call ends after their payload is complete.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    server::ServerSettings,
    wire::v1::{self, compute_client::ComputeClient, stat_response::Status as Found},
};
use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::{
    daemon::{
        client_without_deadlines, faulty_engine::EngineMode, messages, retry_until_ok, store,
        until_idle, until_load,
    },
    table::{Call, World, settings},
};

const COUNT: u64 = 8;

fn vector(id: &Bytes) -> v1::VectorUpload {
    messages::vector(id, v1::ScalarEncoding::Canonical, COUNT)
}

/// All of the payload, without the end of the stream.
fn without_end<M: Send + 'static>(messages: Vec<M>) -> impl futures_util::Stream<Item = M> + Send {
    stream::iter(messages).chain(stream::pending())
}

type Calls = [JoinHandle<Result<(), Code>>; 2];

/// Starts one MSM and one NTT. `time` is their `grpc-timeout`, which only the server enforces.
fn begin(world: &World, ids: &[Bytes; 2], time: Option<&'static str>) -> Calls {
    let chunks =
        || vec![messages::chunk(0, messages::canonical(&messages::random(COUNT as usize)))];
    let sums = without_end(messages::msm_stream(world.spec(), vector(&ids[0]), chunks()));
    let rows = without_end(messages::ntt_stream(messages::ntt_spec(3), vector(&ids[1]), chunks()));
    let (mut sums, mut rows) = (Request::new(sums), Request::new(rows));
    if let Some(time) = time {
        sums.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
        rows.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
    }
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let mut first = ComputeClient::with_origin(client, origin);
    let mut second = first.clone();
    let code = |status: Status| status.code();
    [
        tokio::spawn(async move { first.msm_stream(sums).await.map(drop).map_err(code) }),
        tokio::spawn(async move { second.ntt_stream(rows).await.map(drop).map_err(code) }),
    ]
}

/// Starts calls and waits until the server has all of their payloads. Starts again if a call is cut
/// off because this thread was too slow.
async fn started_and_received(world: &World) -> ([Bytes; 2], Calls) {
    let arrived = async |id: &Bytes| {
        let id = Some(v1::stat_request::Id::UploadId(id.clone()));
        let found = store(&world.channel).stat(v1::StatRequest { id }).await;
        match found.map(|found| found.into_inner().status) {
            Ok(Some(Found::Object(_))) => Ok(()),
            other => Err(other),
        }
    };
    retry_until_ok("calls with their payloads", async || {
        let ids = [messages::id(), messages::id()];
        let calls = begin(world, &ids, None);
        let whole = retry_until_ok("payloads", async || {
            if calls.iter().any(JoinHandle::is_finished) {
                return Ok(false);
            }
            arrived(&ids[0]).await?;
            arrived(&ids[1]).await.map(|()| true)
        });
        if whole.await {
            return Ok((ids, calls));
        }
        calls.iter().for_each(JoinHandle::abort);
        Err("a call was cut off")
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_payload_is_dropped_soon_after_its_caller_leaves() {
    let idle_timeout = Duration::from_millis(300);
    let upload_ttl = Duration::from_secs(24 * 3600);
    let world =
        World::new(ServerSettings { idle_timeout, upload_ttl, workers: 1, ..settings() }).await;
    world.dial.set(EngineMode::Hangs);
    let (_, calls) = started_and_received(&world).await;
    calls.iter().for_each(JoinHandle::abort);
    until_idle(&world.channel, "gone with a complete payload").await;
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("gone with a complete payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_payload_is_dropped_at_its_deadline() {
    let day = Duration::from_secs(24 * 3600);
    let limits = ServerSettings { idle_timeout: day, upload_ttl: day, workers: 1, ..settings() };
    let world = World::new(limits).await;
    world.dial.set(EngineMode::Hangs);
    let calls = begin(&world, &[messages::id(), messages::id()], Some("200m"));
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(Code::DeadlineExceeded));
    }
    until_idle(&world.channel, "a deadline after the payload").await;
    world.dial.set(EngineMode::Honest);
    world.assert_healthy("a deadline after the payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_caller_need_not_send_its_payload_again() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(ServerSettings { idle_timeout, workers: 1, ..settings() }).await;
    world.dial.set(EngineMode::Hangs);
    let (ids, calls) = started_and_received(&world).await;
    calls.iter().for_each(JoinHandle::abort);
    until_load(&world.channel, "the jobs stop", |load| load.jobs == 0).await;
    world.dial.set(EngineMode::Honest);
    let again = Call::msm_stream(world.spec(), vector(&ids[0]), vec![]);
    again.send(&world.channel).await.expect("the scalars are there");
    let again = Call::ntt_stream(messages::ntt_spec(3), vector(&ids[1]), vec![]);
    again.send(&world.channel).await.expect("the rows are there");
    world.assert_healthy("a caller that came back").await;
}
