//! A server that has just started: it serves while it loads its data directory.

use std::{fs, path::Path};

use bytes::Bytes;
use capstan::{
    curve::{
        Fr, G1Affine,
        points::{PointEncoding, encode},
    },
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::service::daemon::{
    TestServer, messages, programs, reason, retry_after, retry_until_ok, store,
};

/// The last id in the order in which files are loaded.
const LAST: [u8; 32] = [0xff; 32];

fn start(folder: &Path) -> TestServer {
    let data_dir = Some(folder.to_owned());
    TestServer::start(ServerSettings { data_dir, ..ServerSettings::default() })
}

async fn stop(daemon: TestServer) {
    tokio::task::spawn_blocking(move || drop(daemon)).await.unwrap();
}

async fn status(channel: &Channel) -> ServingStatus {
    let request = HealthCheckRequest::default();
    let answer = HealthClient::new(channel.clone()).check(request).await;
    answer.expect("answers").into_inner().status()
}

async fn stat(channel: &Channel, id: &[u8]) -> Result<(), Status> {
    let id = Some(v1::stat_request::Id::ObjectId(Bytes::copy_from_slice(id)));
    store(channel).stat(v1::StatRequest { id }).await.map(drop)
}

/// Puts bases with `persist`; returns their id.
async fn put(channel: &Channel) -> Bytes {
    let data = encode(PointEncoding::Montgomery, &messages::points::<G1Affine>(3));
    let upload = v1::BasesUpload {
        persist: true,
        ..messages::bases::<G1Affine>(PointEncoding::Montgomery, 3)
    };
    let put = messages::put_bases(upload, vec![messages::chunk(0, data)]);
    let answer = store(channel).put(stream::iter(put)).await.expect("good points").into_inner();
    match answer.object.expect("an object").kind {
        Some(v1::object::Kind::Bases(bases)) => bases.object_id,
        _ => panic!("not bases"),
    }
}

/// Runs a program that computes an MSM with three scalars.
async fn run_msm(channel: &Channel, id: &'static [u8]) -> Result<(), Status> {
    let scalars = programs::constant(&[Fr::from(1u64); 3]);
    let msm = programs::msm::<G1Affine>(0, &Bytes::from_static(id), 0);
    let header = programs::call([scalars, msm], vec![], vec![programs::points(1)]);
    programs::send_run(channel, programs::run(header, vec![])).await.map(drop)
}

/// Makes a pipe: the server waits in the middle of loading until someone writes to it.
fn make_pipe(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("bases").join(hex::encode(LAST) + ".bases");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bases_are_served_once_they_are_checked_while_others_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    let id = put(&daemon.channel().await).await;
    stop(daemon).await;
    let pipe = make_pipe(folder.path());

    let daemon = start(folder.path());
    let channel = daemon.channel().await;
    retry_until_ok("the first file is loaded", async || stat(&channel, &id).await).await;
    assert_eq!(status(&channel).await, ServingStatus::NotServing);
    let loading = stat(&channel, &LAST).await.unwrap_err();
    assert_eq!((loading.code(), &*reason(&loading)), (Code::Unavailable, "LOADING"));
    assert!(retry_after(&loading).is_some());
    let run = run_msm(&channel, &LAST).await.unwrap_err();
    assert_eq!((run.code(), &*reason(&run)), (Code::Unavailable, "LOADING"), "{run}");
    assert!(retry_after(&run).is_some());
    assert_eq!(put(&channel).await, id, "a server that loads takes new bases");

    // The end of a damaged file.
    drop(fs::File::options().write(true).open(&pipe).unwrap());
    retry_until_ok("the server is ready", async || match status(&channel).await {
        ServingStatus::Serving => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(stat(&channel, &LAST).await.unwrap_err().code(), Code::NotFound);
    // A file that cannot be loaded can be released.
    let id = Some(v1::release_request::Id::ObjectId(Bytes::copy_from_slice(&LAST)));
    store(&channel).release(v1::ReleaseRequest { id }).await.unwrap();
    assert!(!pipe.exists());
    stop(daemon).await;
}
