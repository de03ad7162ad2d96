//! Streamed jobs whose call is gone when their payload is complete.

use std::time::Duration;

use bytes::Bytes;
use capstan::{
    server::Settings,
    wire::v1::{self, stat_response::Status as Found},
};
use futures_util::{StreamExt, stream};
use tonic::{Code, Request};

use crate::{
    daemon::{HANGING, compute, engine::Mode, load, say, settled, store},
    table::{How, World, settings},
};

const COUNT: u64 = 8;

fn vector(id: &Bytes) -> v1::VectorUpload {
    say::vector(id, v1::ScalarEncoding::Canonical, COUNT)
}

/// All of the payload, and a sender that stays.
fn whole<M: Send + 'static>(messages: Vec<M>) -> impl futures_util::Stream<Item = M> + Send {
    stream::iter(messages).chain(stream::pending())
}

/// Both kinds of calls, begun: `time` is their `grpc-timeout`.
fn begin(
    world: &World,
    ids: &[Bytes; 2],
    time: Option<&'static str>,
) -> [tokio::task::JoinHandle<Result<(), Code>>; 2] {
    let chunks = || vec![say::chunk(0, say::canonical(&say::random(COUNT as usize)))];
    let sums = whole(say::msm_stream(world.spec(), vector(&ids[0]), chunks()));
    let rows = whole(say::ntt_stream(say::ntt_spec(3), vector(&ids[1]), chunks()));
    let (mut sums, mut rows) = (Request::new(sums), Request::new(rows));
    if let Some(time) = time {
        sums.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
        rows.metadata_mut().insert("grpc-timeout", time.parse().unwrap());
    }
    let (mut first, mut second) = (compute(&world.channel), compute(&world.channel));
    let said = |status: tonic::Status| status.code();
    [
        tokio::spawn(async move { first.msm_stream(sums).await.map(drop).map_err(said) }),
        tokio::spawn(async move { second.ntt_stream(rows).await.map(drop).map_err(said) }),
    ]
}

/// Resolves when the server has all of each payload.
async fn arrived(world: &World, ids: &[Bytes]) {
    let mut store = store(&world.channel);
    for id in ids {
        let wanted = || v1::StatRequest { id: Some(v1::stat_request::Id::UploadId(id.clone())) };
        let there = async {
            loop {
                if let Ok(found) = store.stat(wanted()).await
                    && let Some(Found::Object(_)) = found.into_inner().status
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(HANGING, there).await.expect("the payload arrives");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_payload_goes_soon_after_its_caller() {
    let idle_timeout = Duration::from_millis(300);
    let upload_ttl = Duration::from_secs(24 * 3600);
    let world = World::new(Settings { idle_timeout, upload_ttl, workers: 1, ..settings() }).await;
    world.dial.set(Mode::Hangs);
    let ids = [say::id(), say::id()];
    let calls = begin(&world, &ids, None);
    arrived(&world, &ids).await;
    calls.iter().for_each(|call| call.abort());
    settled(&world.channel, "gone with a complete payload").await;
    world.dial.set(Mode::Honest);
    world.assert_well("gone with a complete payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_payload_ends_with_its_deadline() {
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
async fn a_caller_that_comes_back_need_not_send_again() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(Settings { idle_timeout, workers: 1, ..settings() }).await;
    world.dial.set(Mode::Hangs);
    let ids = [say::id(), say::id()];
    let calls = begin(&world, &ids, None);
    arrived(&world, &ids).await;
    calls.iter().for_each(|call| call.abort());
    let stopped = async {
        while load(&world.channel).await.jobs > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(HANGING, stopped).await.expect("the jobs stop");
    world.dial.set(Mode::Honest);
    let again = How::MsmStream(say::msm_stream(world.spec(), vector(&ids[0]), vec![]));
    again.send(&world.channel).await.expect("the scalars are there");
    let again = How::NttStream(say::ntt_stream(say::ntt_spec(3), vector(&ids[1]), vec![]));
    again.send(&world.channel).await.expect("the rows are there");
    world.assert_well("a caller that came back").await;
}
