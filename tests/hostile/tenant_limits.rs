//! Limits of tenants, with one tenant whose file sets them: requests above them are refused.

use std::{fs, path::PathBuf, time::Duration};

use capstan::{curve::G1Affine, server::ServerSettings, wire::v1};
use tempfile::TempDir;
use tonic::{Code, Request, Status, transport::Endpoint};

use crate::{
    daemon::{
        TestServer, compute, faulty_engine::EngineMode, messages, reason, retry_after, store,
        until_load,
    },
    limits::{MIB, hold, release},
    resources::ResourceCheck,
    table::{Call, World, settings},
};

/// A world whose callers are tenants with these limits. The file lives as long as the folder.
async fn world_with(limits: &str) -> (World, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = limit(&folder, limits);
    (World::new(ServerSettings { tenants: Some(file), ..settings() }).await, folder)
}

/// Writes the file of tenants.
fn limit(folder: &TempDir, limits: &str) -> PathBuf {
    let file = folder.path().join("tenants.toml");
    fs::write(&file, format!("[tenants.default]\n{limits}\n")).expect("a file");
    file
}

fn assert_over_quota(status: &Status, limit: &str, again: bool) {
    let got = (status.code(), &*reason(status));
    assert_eq!(got, (Code::ResourceExhausted, "TENANT_QUOTA"), "{status}");
    assert!(status.message().contains(limit), "{status}");
    assert_eq!(retry_after(status).is_some(), again, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_uploads_of_a_tenant_are_limited() {
    let (world, _folder) = world_with("bytes_in_flight_max = \"8 MiB\"\nuploads_max = 2").await;
    let (one, two) = (world.daemon.channel().await, world.daemon.channel().await);
    let never = hold(&one, 9 * MIB).await.unwrap_err();
    assert_over_quota(&never, "bytes_in_flight_max", false);
    let first = hold(&one, 6 * MIB).await.unwrap();
    let full = hold(&two, 3 * MIB).await.unwrap_err();
    assert_over_quota(&full, "bytes_in_flight_max", true);
    let second = hold(&two, 1).await.unwrap();
    let full = hold(&one, 1).await.unwrap_err();
    assert_over_quota(&full, "uploads_max", true);
    release(&one, &first).await;
    release(&two, &second).await;
    world.assert_healthy("bytes of a tenant").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_bytes_of_a_tenant_are_limited() {
    let (world, folder) = world_with("unread_bytes_max = 3000000").await;
    let channel = &world.channel;
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 4 * MIB);
    let chunks = (0..4).map(|chunk| messages::chunk(chunk * MIB, vec![1; MIB as usize]));
    let put = messages::put_vector(vector.clone(), chunks.collect());
    store(channel).put(futures_util::stream::iter(put)).await.expect("a vector");
    let get = async || {
        let id = v1::get_request::Id::UploadId(vector.upload_id.clone());
        let request = v1::GetRequest { id: Some(id), ..Default::default() };
        store(&world.daemon.channel().await).get(request).await
    };
    // While it is not read, the transport holds up to three parts.
    let unread = [get().await.unwrap(), get().await.unwrap(), get().await.unwrap()];
    let refused = get().await.unwrap_err();
    assert_over_quota(&refused, "unread_bytes_max", true);
    drop(unread);
    // What is in use stays when the limit changes.
    limit(&folder, "unread_bytes_max = 10");
    let never = async || match get().await {
        Err(status) if retry_after(&status).is_none() => Some(status),
        _ => None,
    };
    let mut refused = never().await;
    while refused.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        refused = never().await;
    }
    assert_over_quota(&refused.unwrap(), "unread_bytes_max", false);
    release(channel, &vector).await;
    world.assert_healthy("unread bytes of a tenant").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_and_connections_of_a_tenant_are_limited() {
    let (world, _folder) = world_with("jobs_max = 1\nconnections_max = 2").await;
    world.dial.set(EngineMode::Hangs);
    let (mut client, (request, _)) = (compute(&world.channel), world.good_msm());
    let first = tokio::spawn(async move { client.msm(request).await.map(drop) });
    until_load(&world.channel, "a job", |load| load.jobs == 1).await;
    let two = world.daemon.channel().await;
    let second = Call::Msm(world.good_msm().0).send(&two).await;
    assert_over_quota(&second.unwrap_err(), "jobs_max", true);
    let third = Endpoint::from_shared(format!("http://{}", world.daemon.address));
    let third = third.expect("an address").connect().await.expect("is accepted");
    let refused = store(&third).list(v1::ListRequest::default()).await.unwrap_err();
    assert_over_quota(&refused, "connections_max", true);
    world.dial.set(EngineMode::Honest);
    first.await.unwrap().expect("an accepted job completes");
    world.assert_healthy("jobs of a tenant").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modelled_device_time_of_a_tenant_is_limited() {
    let (world, folder) = world_with("").await;
    // Now: the world has put bases, which takes longer.
    limit(&folder, "device_seconds_per_minute = 0.001");
    let mut refused = None;
    for _ in 0..100_000 {
        if let Err(status) = Call::Msm(world.good_msm().0).send(&world.channel).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("the file was read again, and MSMs take longer");
    assert_over_quota(&refused, "device_seconds_per_minute", true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_bases_use_up_the_device_time_of_a_tenant() {
    let (world, _folder) = world_with("device_seconds_per_minute = 0.5").await;
    let points = messages::points::<G1Affine>(4096);
    let put = async |first: usize| {
        let request = messages::put_points(&points[first..]);
        Call::Put(request).send(&world.channel).await
    };
    let mut refused = None;
    for first in 0..1000 {
        // Other points each time: the server checks no points that the tenant has put.
        if let Err(status) = put(first).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("a thousand uploads take longer than half a second");
    assert_over_quota(&refused, "device_seconds_per_minute", true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_end_in_time_is_refused_before_its_input_arrives() {
    let _resources = ResourceCheck::begin(&ServerSettings::default()).await;
    let server = TestServer::start(ServerSettings::default());
    let channel = server.channel().await;
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 1 << 22);
    let header = messages::ntt_stream(messages::ntt_spec(22), vector, vec![]);
    let mut request = Request::new(futures_util::stream::iter(header));
    request.set_timeout(Duration::from_millis(100));
    let refused = compute(&channel).ntt_stream(request).await.expect_err("takes longer");
    assert_eq!(&*reason(&refused), "DEADLINE_TOO_EARLY", "{refused}");
    assert!(retry_after(&refused).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_is_one_of_three_words() {
    let world = World::new(settings()).await;
    let send = async |word: &'static str| {
        let mut request = Request::new(world.good_msm().0);
        request.metadata_mut().insert("capstan-priority", word.parse().expect("ASCII"));
        compute(&world.channel).msm(request).await
    };
    for word in ["batch", "normal", "urgent"] {
        send(word).await.expect(word);
    }
    for word in ["", "Urgent", "high"] {
        let refused = send(word).await.unwrap_err();
        let got = (refused.code(), &*reason(&refused));
        assert_eq!(got, (Code::InvalidArgument, "OUT_OF_RANGE"), "{word:?}: {refused}");
    }
}
