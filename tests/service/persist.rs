//! Bases that survive a restart, and files that must not.

use std::{fs, os::unix::fs::FileExt, path::Path, time::Duration};

use bytes::Bytes;
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine,
        points::{CurvePoint, PointEncoding, encode},
    },
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::service::daemon::{TestServer, compute, load, messages, retry_until_ok, store};

fn start(folder: &Path) -> TestServer {
    let data_dir = Some(folder.to_owned());
    TestServer::start(ServerSettings { data_dir, ..ServerSettings::default() })
}

/// Puts points; returns the server's description, and whether it had them already.
async fn put<A: CurvePoint>(
    channel: &Channel,
    points: &[A],
    hash: Option<[u8; 32]>,
    persist: bool,
) -> (v1::Bases, bool) {
    let data = encode(PointEncoding::Compressed, points);
    let upload = v1::BasesUpload {
        persist,
        label: "a setup".into(),
        payload_hash: hash.map_or(Bytes::new(), |hash| hash.to_vec().into()),
        ..messages::bases::<A>(PointEncoding::Compressed, points.len() as u64)
    };
    let messages = messages::put_bases(upload, vec![messages::chunk(0, data)]);
    let answer = store(channel).put(stream::iter(messages)).await.expect("good points");
    let v1::PutResponse { object, existed } = answer.into_inner();
    match object.expect("an object").kind {
        Some(v1::object::Kind::Bases(bases)) => (bases, existed),
        _ => panic!("not bases"),
    }
}

async fn list(channel: &Channel) -> Vec<v1::Bases> {
    store(channel).list(v1::ListRequest::default()).await.unwrap().into_inner().bases
}

async fn assert_computes<A: CurvePoint>(channel: &Channel, bases: &v1::Bases, points: &[A]) {
    let scalars: Vec<Fr> = (1..=points.len() as u64).map(Fr::from).collect();
    let spec = messages::spec(messages::group::<A>(), messages::stored(&bases.object_id, 0, 0));
    let inline = messages::scalars(v1::ScalarEncoding::Canonical, messages::canonical(&scalars));
    let answer =
        compute(channel).msm(messages::msm(spec, inline)).await.expect("the bases are stored");
    let expected = messages::compressed::<A>(messages::sum(points, &scalars));
    assert_eq!(answer.into_inner().result.unwrap().points, expected);
}

async fn stat(
    channel: &Channel,
    hash: &[u8; 32],
    encoding: v1::PointEncoding,
) -> Result<(), Status> {
    let payload = v1::Payload { hash: hash.to_vec().into(), encoding: encoding as i32 };
    let id = Some(v1::stat_request::Id::Payload(payload));
    store(channel).stat(v1::StatRequest { id }).await.map(drop)
}

/// Opens a connection, and waits until the server has loaded its files.
async fn loaded_channel(daemon: &TestServer) -> Channel {
    let channel = daemon.channel().await;
    retry_until_ok("the server is ready", async || {
        let request = HealthCheckRequest::default();
        let answer = HealthClient::new(channel.clone()).check(request).await;
        match answer.expect("answers").into_inner().status() {
            ServingStatus::Serving => Ok(()),
            other => Err(other),
        }
    })
    .await;
    channel
}

async fn stop(daemon: TestServer) {
    tokio::task::spawn_blocking(move || drop(daemon)).await.unwrap();
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder.join("bases")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn persisted_bases_survive_a_restart_until_they_are_released() {
    let folder = tempfile::tempdir().unwrap();
    let (mut g1, g2) = (messages::points::<G1Affine>(5), messages::points::<G2Affine>(3));
    g1[2] = G1Affine::identity();
    let hash: [u8; 32] = blake3::hash(&encode(PointEncoding::Compressed, &g1)).into();
    let daemon = start(folder.path());
    let channel = loaded_channel(&daemon).await;
    // In memory first: a second `Put` with `persist` writes them to disk.
    let (first, _) = put(&channel, &g1, Some(hash), false).await;
    assert!(!first.persisted && files(folder.path()).is_empty());
    let (of_g1, _) = put(&channel, &g1, Some(hash), true).await;
    assert!(of_g1.persisted && of_g1.object_id == first.object_id);
    let (of_g2, _) = put(&channel, &g2, None, true).await;
    let (fleeting, _) = put(&channel, &g1[..2], None, false).await;
    stop(daemon).await;
    fs::write(folder.path().join("bases/unfinished.part"), b"half").unwrap();

    let daemon = start(folder.path());
    let channel = loaded_channel(&daemon).await;
    let mut listed = list(&channel).await;
    listed.sort_by_key(|bases| bases.group);
    assert_eq!(listed, [of_g1.clone(), of_g2.clone()]);
    assert_eq!((of_g1.infinities, &*of_g1.label, of_g1.count), (1, "a setup", 5));
    assert!(listed.iter().all(|bases| bases.object_id != fleeting.object_id));
    assert_eq!(files(folder.path()).len(), 2, "the unfinished file is removed");
    assert_computes(&channel, &of_g1, &g1).await;
    assert_computes(&channel, &of_g2, &g2).await;
    let known = stat(&channel, &hash, v1::PointEncoding::Compressed).await;
    known.expect("found by its payload");
    assert!(put(&channel, &g1, Some(hash), true).await.1, "the payload is known");
    let id = Some(v1::release_request::Id::ObjectId(of_g1.object_id.clone()));
    store(&channel).release(v1::ReleaseRequest { id }).await.unwrap();
    assert_eq!(files(folder.path()).len(), 1);
    stop(daemon).await;

    let daemon = start(folder.path());
    assert_eq!(list(&loaded_channel(&daemon).await).await, [of_g2]);
    stop(daemon).await;
}

/// Puts `data` with its hash and `persist`; returns whether the server had it already.
async fn put_hashed(channel: &Channel, encoding: PointEncoding, data: &[u8]) -> Result<bool, Code> {
    let upload = v1::BasesUpload {
        persist: true,
        payload_hash: blake3::hash(data).as_bytes().to_vec().into(),
        ..messages::bases::<G1Affine>(encoding, (data.len() / 96) as u64)
    };
    let messages = messages::put_bases(upload, vec![messages::chunk(0, data.to_vec())]);
    let answer = store(channel).put(stream::iter(messages)).await;
    answer.map(|put| put.into_inner().existed).map_err(|status| status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_bytes_in_another_encoding_are_another_payload() {
    use v1::PointEncoding::{Montgomery as Limbs, Uncompressed as Flagged};
    let folder = tempfile::tempdir().unwrap();
    let limbs = encode(PointEncoding::Montgomery, &messages::points::<G1Affine>(2));
    let hash: [u8; 32] = blake3::hash(&limbs).into();
    for had in [false, true] {
        let daemon = start(folder.path());
        let channel = loaded_channel(&daemon).await;
        assert_eq!(put_hashed(&channel, PointEncoding::Montgomery, &limbs).await, Ok(had));
        stat(&channel, &hash, Limbs).await.expect("found by its payload");
        assert_eq!(stat(&channel, &hash, Flagged).await.unwrap_err().code(), Code::NotFound);
        let other = put_hashed(&channel, PointEncoding::Uncompressed, &limbs).await;
        assert_eq!(other, Err(Code::InvalidArgument), "known before: {had}");
        stop(daemon).await;
    }
    // Files of earlier versions hold the payload's hash without its encoding, or no checksum of it.
    // A `Put` writes them again.
    let path = files(folder.path()).remove(0);
    for encoding in [0, 3] {
        let mut content = fs::read(&path).unwrap();
        assert_eq!(content[40..73], [&hash[..], &[3]].concat());
        content[72] = encoding;
        content[CHECKSUM].fill(0);
        fs::write(&path, content).unwrap();
        let daemon = start(folder.path());
        let channel = loaded_channel(&daemon).await;
        assert_eq!(list(&channel).await.len(), 1);
        assert_eq!(stat(&channel, &hash, Limbs).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(put_hashed(&channel, PointEncoding::Montgomery, &limbs).await, Ok(false));
        stop(daemon).await;
    }
    let daemon = start(folder.path());
    let channel = loaded_channel(&daemon).await;
    stat(&channel, &hash, Limbs).await.expect("the file was written again");
    stop(daemon).await;
}

/// The bytes of a file that cover its header and its name.
const CHECKSUM: std::ops::Range<usize> = 224..256;

/// Swaps the headers of two files, as a faulty disk or a person can. Without their checksums they
/// are like those of version 0.2.0.
fn swap_headers(paths: &[std::path::PathBuf], keeps_checksums: bool) {
    let mut contents: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let (one, other) = contents.split_at_mut(1);
    one[0][..CHECKSUM.end].swap_with_slice(&mut other[0][..CHECKSUM.end]);
    for (path, mut content) in paths.iter().zip(contents) {
        if !keeps_checksums {
            content[CHECKSUM].fill(0);
        }
        fs::write(path, content).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_by_hash_never_finds_the_file_that_got_the_header_of_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let all = messages::points::<G1Affine>(4);
    let hash =
        |points: &[G1Affine]| *blake3::hash(&encode(PointEncoding::Compressed, points)).as_bytes();
    let parts = [&all[..2], &all[2..]];
    let daemon = start(folder.path());
    let channel = daemon.channel().await;
    for part in parts {
        put(&channel, part, Some(hash(part)), true).await;
    }
    stop(daemon).await;
    let paths = files(folder.path());
    for (keeps_checksums, listed) in [(true, 0), (false, 2)] {
        swap_headers(&paths, keeps_checksums);
        let daemon = start(folder.path());
        let channel = loaded_channel(&daemon).await;
        assert_eq!(list(&channel).await.len(), listed, "checksums: {keeps_checksums}");
        for part in parts {
            let (bases, existed) = put(&channel, part, Some(hash(part)), true).await;
            assert!(!existed, "checksums: {keeps_checksums}");
            assert_computes(&channel, &bases, part).await;
        }
        stop(daemon).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_changes_while_it_is_served_is_found_and_can_be_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = Some(folder.path().to_owned());
    let object_check_interval = Duration::from_millis(10);
    let settings = ServerSettings { data_dir, object_check_interval, ..ServerSettings::default() };
    let daemon = TestServer::start(settings);
    let channel = loaded_channel(&daemon).await;
    let points = messages::points::<G1Affine>(5);
    let (damaged, _) = put(&channel, &points[..3], None, true).await;
    let path = files(folder.path()).remove(0);
    let (sound, _) = put(&channel, &points[3..], None, true).await;
    // The header is not read any more.
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0x55; 8], CHECKSUM.end as u64).unwrap();
    retry_until_ok("the server finds the damage", async || {
        let held = list(&channel).await;
        if held.len() == 1 { Ok(()) } else { Err(held) }
    })
    .await;
    assert_eq!(list(&channel).await, [sound]);
    let id = Some(v1::stat_request::Id::ObjectId(damaged.object_id.clone()));
    let status = store(&channel).stat(v1::StatRequest { id }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let (again, _) = put(&channel, &points[..3], None, true).await;
    assert_eq!(again.object_id, damaged.object_id);
    assert_computes(&channel, &again, &points[..3]).await;
    stop(daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_are_ignored_and_not_changed() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 10] = [
        |file| *file.last_mut().unwrap() ^= 1,
        |file| file.truncate(file.len() - 1),
        |file| file.truncate(100),
        |file| file.clear(),
        |file| file[0] ^= 1,
        |file| file[23] = 0xff,
        |file| file[40] ^= 1,
        |file| file[80] ^= 1,
        |file| file[CHECKSUM.end - 1] ^= 1,
        |file| file.extend_from_within(256..352),
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let points = messages::points::<G1Affine>(3);
        let daemon = start(folder.path());
        let (bases, _) = put(&daemon.channel().await, &points, None, true).await;
        stop(daemon).await;
        let path = files(folder.path()).remove(0);
        let mut content = fs::read(&path).unwrap();
        damage(&mut content);
        fs::write(&path, &content).unwrap();
        let daemon = start(folder.path());
        let channel = loaded_channel(&daemon).await;
        assert!(list(&channel).await.is_empty(), "damage {i} went unnoticed");
        assert_eq!(load(&channel).await.store_bytes, 0, "damage {i} counts as stored bytes");
        assert_eq!(fs::read(&path).unwrap(), content, "damage {i}");
        let id = Some(v1::stat_request::Id::ObjectId(bases.object_id.clone()));
        let status = store(&channel).stat(v1::StatRequest { id }).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        // A new `Put` repairs the file.
        let (again, _) = put(&channel, &points, None, true).await;
        assert_eq!(again.object_id, bases.object_id);
        assert_computes(&channel, &again, &points).await;
        stop(daemon).await;
        let daemon = start(folder.path());
        assert_eq!(
            list(&loaded_channel(&daemon).await).await.len(),
            1,
            "damage {i} was not repaired"
        );
        stop(daemon).await;
    }
}
