//! Streamed jobs whose call ends after their payload is complete.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    server::Settings,
    wire::v1::{self, compute_client::ComputeClient, stat_response::Status as Found},
};
use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::{
    daemon::{engine::Mode, say, settled, store, timeless, until, until_load},
    table::{How, World, settings},
};

const COUNT: u64 = 8;

fn vector(id: &Bytes) -> v1::VectorUpload {
    say::vector(id, v1::ScalarEncoding::Canonical, COUNT)
}

/// All of the payload, without the end of the stream.
fn whole<M: Send + 'static>(messages: Vec<M>) -> impl futures_util::Stream<Item = M> + Send {
    stream::iter(messages).chain(stream::pending())
}

type Calls = [JoinHandle<Result<(), Code>>; 2];

/// Starts one MSM and one NTT. `time` is their `grpc-timeout`, which only the server enforces.
fn begin(world: &World, ids: &[Bytes; 2], time: Option<&'static str>) -> Calls {
    let chunks = || vec![say::chunk(0, say::canonical(&say::random(COUNT as usize)))];
    let sums = whole(say::msm_stream(world.spec(), vector(&ids[0]), chunks()));
    let rows = whole(say::ntt_stream(say::ntt_spec(3), vector(&ids[1]), chunks()));
    let (mut sums, mut rows) = (Request::new(sums), Request::new(rows));
    if let Some(time) = time {
        sums.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
        rows.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
    }
    let (client, origin) = timeless(world.daemon.address);
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
async fn begun(world: &World) -> ([Bytes; 2], Calls) {
    let arrived = async |id: &Bytes| {
        let id = Some(v1::stat_request::Id::UploadId(id.clone()));
        let found = store(&world.channel).stat(v1::StatRequest { id }).await;
        match found.map(|found| found.into_inner().status) {
            Ok(Some(Found::Object(_))) => Ok(()),
            other => Err(other),
        }
    };
    until("calls with their payloads", async || {
        let ids = [say::id(), say::id()];
        let calls = begin(world, &ids, None);
        let whole = until("payloads", async || {
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
    let world = World::new(Settings { idle_timeout, upload_ttl, workers: 1, ..settings() }).await;
    world.dial.set(Mode::Hangs);
    let (_, calls) = begun(&world).await;
    calls.iter().for_each(JoinHandle::abort);
    settled(&world.channel, "gone with a complete payload").await;
    world.dial.set(Mode::Honest);
    world.assert_well("gone with a complete payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_payload_is_dropped_at_its_deadline() {
    let day = Duration::from_secs(24 * 3600);
    let limits = Settings { idle_timeout: day, upload_ttl: day, workers: 1, ..settings() };
    let world = World::new(limits).await;
    world.dial.set(Mode::Hangs);
    let calls = begin(&world, &[say::id(), say::id()], Some("200m"));
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(Code::DeadlineExceeded));
    }
    settled(&world.channel, "a deadline after the payload").await;
    world.dial.set(Mode::Honest);
    world.assert_well("a deadline after the payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_caller_need_not_send_its_payload_again() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(Settings { idle_timeout, workers: 1, ..settings() }).await;
    world.dial.set(Mode::Hangs);
    let (ids, calls) = begun(&world).await;
    calls.iter().for_each(JoinHandle::abort);
    until_load(&world.channel, "the jobs stop", |load| load.jobs == 0).await;
    world.dial.set(Mode::Honest);
    let again = How::MsmStream(say::msm_stream(world.spec(), vector(&ids[0]), vec![]));
    again.send(&world.channel).await.expect("the scalars are there");
    let again = How::NttStream(say::ntt_stream(say::ntt_spec(3), vector(&ids[1]), vec![]));
    again.send(&world.channel).await.expect("the rows are there");
    world.assert_well("a caller that came back").await;
}
