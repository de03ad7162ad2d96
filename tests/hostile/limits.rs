//! Limits, whole and of one connection: refused at once, with a time to retry where that can help.

use capstan::{
    curve::{G1Affine, points::PointEncoding},
    server::Settings,
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status, transport::Channel};

use crate::{
    daemon::{compute, engine::Mode, load, reason, retry_after, say, store},
    table::{How, World, settings},
};

const MIB: u64 = 1 << 20;

/// A vector of `bytes` zeros that is never sent but for its first byte, held by the server.
async fn hold(channel: &Channel, bytes: u64) -> Result<v1::VectorUpload, Status> {
    use futures_util::StreamExt;
    let vector = say::vector(&say::id(), v1::ScalarEncoding::U8, bytes);
    let messages = say::put_vector(vector.clone(), vec![say::chunk(0, vec![0])]);
    let mut client = store(channel);
    let call =
        tokio::spawn(
            async move { client.put(stream::iter(messages).chain(stream::pending())).await },
        );
    loop {
        let id = Some(v1::stat_request::Id::UploadId(vector.upload_id.clone()));
        if store(channel).stat(v1::StatRequest { id }).await.is_ok() {
            return Ok(vector);
        }
        if call.is_finished() {
            // One of a single byte is complete, and held all the same.
            return call.await.expect("no panic").map(|_| vector);
        }
        tokio::task::yield_now().await;
    }
}

async fn let_go(channel: &Channel, vector: &v1::VectorUpload) {
    let id = Some(v1::release_request::Id::UploadId(vector.upload_id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.expect("was held");
}

fn assert_full(status: &Status, expected: &str, again: bool) {
    assert_eq!((status.code(), &*reason(status)), (Code::ResourceExhausted, expected), "{status}");
    assert_eq!(retry_after(status).is_some(), again, "{expected}: {status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_limited_whole_and_by_connection() {
    let world = World::new(settings()).await;
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    let three = world.daemon.channel().await;
    let never = hold(&one, 32 * MIB + 1).await.unwrap_err();
    assert_full(&never, "CONNECTION_BYTES", false);
    let first = hold(&one, 30 * MIB).await.unwrap();
    let full = hold(&one, 3 * MIB).await.unwrap_err();
    assert_full(&full, "CONNECTION_BYTES", true);
    let second = hold(&two, 30 * MIB).await.unwrap();
    let full = hold(&three, 5 * MIB).await.unwrap_err();
    assert_full(&full, "BYTES_IN_FLIGHT", true);
    // One connection's appetite is not the others' hunger.
    let (request, sum) = world.good_msm();
    assert_eq!(How::Msm(request).send(&three).await.unwrap(), sum);
    let_go(&one, &first).await;
    while load(&two).await.bytes_in_flight > 30 * MIB {
        tokio::task::yield_now().await;
    }
    let third = hold(&three, 5 * MIB).await.unwrap();
    let_go(&three, &third).await;
    let_go(&two, &second).await;
    world.assert_well("bytes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_parts_fit_but_not_their_sum_is_never_told_to_retry() {
    let world = World::new(settings()).await;
    // 16 MiB of payload, 16 of result, and working memory on top.
    let spec = || v1::NttSpec { batch: 1 << 10, ..say::ntt_spec(9) };
    let vector = || say::vector(&say::id(), v1::ScalarEncoding::Canonical, 1 << 19);
    let how = How::NttStream(say::ntt_stream(spec(), vector(), vec![]));
    assert_full(&how.send(&world.channel).await.unwrap_err(), "CONNECTION_BYTES", false);
    world.assert_well("sums").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_limited_whole_and_by_connection() {
    let limits = Settings { jobs_max: 5, connection_jobs_max: 3, workers: 1, ..settings() };
    let world = World::new(limits).await;
    world.dial.set(Mode::Hangs);
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    let begin = |channel: &Channel| {
        let (mut client, (request, _)) = (compute(channel), world.good_msm());
        tokio::spawn(async move { client.msm(request).await.map(drop) })
    };
    let mut calls: Vec<_> = (0..3).map(|_| begin(&one)).collect();
    while load(&world.channel).await.jobs < 3 {
        tokio::task::yield_now().await;
    }
    let full = begin(&one).await.unwrap().unwrap_err();
    assert_full(&full, "CONNECTION_JOBS", true);
    calls.extend((0..2).map(|_| begin(&two)));
    while load(&world.channel).await.jobs < 5 {
        tokio::task::yield_now().await;
    }
    let full = begin(&two).await.unwrap().unwrap_err();
    assert_full(&full, "JOBS", true);
    world.dial.set(Mode::Honest);
    for call in calls {
        call.await.unwrap().expect("what was accepted is done");
    }
    world.assert_well("jobs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_and_the_store_are_limited() {
    // The world has two objects.
    let limits =
        Settings { uploads_max: 2, store_bytes_max: 2 * MIB, objects_max: 2, ..settings() };
    let world = World::new(limits).await;
    let first = hold(&world.channel, 1).await;
    let second = hold(&world.channel, 1).await.unwrap();
    assert_full(&hold(&world.channel, 1).await.unwrap_err(), "UPLOADS", true);
    let_go(&world.channel, &first.unwrap()).await;
    let_go(&world.channel, &second).await;
    let put = |count| {
        How::Put(say::put_bases(say::bases::<G1Affine>(PointEncoding::Compressed, count), vec![]))
    };
    let never = put(22_000).send(&world.channel).await.unwrap_err();
    assert_full(&never, "STORE", false);
    let full = put(21_845).send(&world.channel).await.unwrap_err();
    assert_full(&full, "STORE", true);
    assert_full(&put(1).send(&world.channel).await.unwrap_err(), "OBJECTS", true);
    world.assert_well("uploads and store").await;
}
