//! Ids that are unknown, released, or of another kind of object.

use bytes::Bytes;
use capstan::{
    curve::{G1Affine, points::PointEncoding},
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status};

use crate::{
    daemon::{compute, messages, reason, retry_until_ok, store},
    table::{Call, Row, World, invalid, refused, settings},
};

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = residency_rows(world);
    for (name, id) in unknown_ids(32) {
        for (op, call) in bases_calls(world, &id) {
            rows.push(refused(format!("{op} {name}"), call, Code::NotFound, "OBJECT_UNKNOWN"));
        }
    }
    for (name, id) in unknown_ids(16) {
        for (op, call) in upload_calls(world, &id) {
            rows.push(refused(format!("{op} {name}"), call, Code::NotFound, "OBJECT_UNKNOWN"));
        }
    }
    let kind = Code::FailedPrecondition;
    for (name, group, id) in
        [("G1 as G2", v1::Group::G2, &world.g1_id), ("G2 as G1", v1::Group::G1, &world.g2_id)]
    {
        let spec = messages::spec(group as i32, messages::stored(id, 0, 0));
        let scalars = messages::scalars(v1::ScalarEncoding::U8, vec![1; 8]);
        rows.push(refused(name, Call::msm(spec.clone(), scalars), kind, "OBJECT_KIND"));
        let vector = messages::new_vector(v1::ScalarEncoding::U8, 8);
        let call = Call::msm_stream(spec, vector, vec![]);
        rows.push(refused(format!("{name}, streamed"), call, kind, "OBJECT_KIND"));
    }
    let get = |id| v1::GetRequest {
        id: Some(v1::get_request::Id::ObjectId(id)),
        ..v1::GetRequest::default()
    };
    let of_g1 = get(world.g1_id.clone());
    rows.push(invalid("bases without encoding", Call::Get(of_g1.clone()), "MISSING", "encoding"));
    let encoding = Some(v1::PointEncoding::Compressed as i32);
    let past = v1::GetRequest { encoding, offset: 9, ..of_g1.clone() };
    rows.push(invalid("get past the end", Call::Get(past), "SIZE_TOO_LARGE", "offset"));
    let past = v1::GetRequest { encoding, offset: 8, length: 1, ..of_g1 };
    rows.push(invalid("get over the end", Call::Get(past), "SIZE_TOO_LARGE", "length"));
    for (name, page_token) in
        [("short", vec![7; 39]), ("long", vec![7; 41]), ("huge", vec![7; 9000])]
    {
        let page_token = page_token.into();
        let call = Call::List(v1::ListRequest { page_token, ..Default::default() });
        rows.push(invalid(format!("a {name} page token"), call, "OUT_OF_RANGE", "page_token"));
    }
    let upload = v1::BasesUpload {
        persist: true,
        ..messages::bases::<G1Affine>(PointEncoding::Compressed, 9)
    };
    let call = Call::put_bases(upload, vec![]);
    rows.push(refused("persist without a data directory", call, kind, "NO_DATA_DIR"));
    let points = capstan::curve::points::encode(PointEncoding::Compressed, &world.g1[1..3]);
    let upload = v1::BasesUpload {
        payload_hash: vec![7; 32].into(),
        ..messages::bases::<G1Affine>(PointEncoding::Compressed, 2)
    };
    let call = Call::put_bases(upload, vec![messages::chunk(0, points)]);
    rows.push(refused("another hash than promised", call, Code::Aborted, "HASH_MISMATCH"));
    rows
}

/// Ids that name nothing: random, all zero, too short, too long, empty.
fn unknown_ids(len: usize) -> Vec<(String, Bytes)> {
    let random: Vec<u8> = (0..len).map(|i| (i * 37 + 11) as u8).collect();
    let all = [random.clone(), vec![0; len], random[1..].to_vec(), vec![5; len + 1], vec![]];
    all.into_iter().map(|id| (format!("an id {}", hex::encode(&id)), id.into())).collect()
}

fn bases_calls(world: &World, id: &Bytes) -> Vec<(&'static str, Call)> {
    let spec = messages::spec(v1::Group::G1 as i32, messages::stored(id, 0, 0));
    let scalars = messages::scalars(v1::ScalarEncoding::U8, vec![1; 8]);
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 8);
    let encoding = Some(v1::PointEncoding::Compressed as i32);
    let get = Some(v1::get_request::Id::ObjectId(id.clone()));
    let payload = v1::Payload { hash: id.clone(), encoding: v1::PointEncoding::Compressed as i32 };
    assert!(!world.g1_id.is_empty());
    vec![
        ("msm", Call::msm(spec.clone(), scalars)),
        ("msm_stream", Call::msm_stream(spec, vector, vec![])),
        ("get", Call::Get(v1::GetRequest { id: get, encoding, ..v1::GetRequest::default() })),
        ("stat", stat(v1::stat_request::Id::ObjectId(id.clone()))),
        ("stat by payload", stat(v1::stat_request::Id::Payload(payload))),
        ("release", release(v1::release_request::Id::ObjectId(id.clone()))),
        ("warm", residency(id, v1::ResidencyAction::Warm as i32, &[])),
        ("pin", residency(id, v1::ResidencyAction::Pin as i32, &[0])),
    ]
}

fn upload_calls(world: &World, id: &Bytes) -> Vec<(&'static str, Call)> {
    let input = Some(v1::ntt_request::Input::UploadId(id.clone()));
    let ntt = v1::NttRequest { spec: Some(messages::ntt_spec(3)), input, keep: false };
    let get = Some(v1::get_request::Id::UploadId(id.clone()));
    vec![
        ("msm on", Call::Msm(messages::msm_on(world.spec(), id))),
        ("ntt on", Call::Ntt(ntt)),
        ("get of", Call::Get(v1::GetRequest { id: get, ..v1::GetRequest::default() })),
        ("stat of", stat(v1::stat_request::Id::UploadId(id.clone()))),
        ("release of", release(v1::release_request::Id::UploadId(id.clone()))),
    ]
}

fn stat(id: v1::stat_request::Id) -> Call {
    Call::Stat(v1::StatRequest { id: Some(id) })
}

fn residency(id: &Bytes, action: i32, devices: &[u32]) -> Call {
    let (object_id, devices) = (id.clone(), devices.to_vec());
    Call::SetResidency(v1::SetResidencyRequest { object_id, action, devices })
}

/// The server has no GPU.
fn residency_rows(world: &World) -> Vec<Row> {
    use v1::ResidencyAction::{Evict, Pin};
    let row = |name, action, devices: &[u32], reason, field| {
        invalid(name, residency(&world.g1_id, action, devices), reason, field)
    };
    let many: Vec<u32> = (0..65).collect();
    vec![
        row("no residency action", 0, &[], "UNSPECIFIED", "action"),
        row("an unknown residency action", 5, &[], "OUT_OF_RANGE", "action"),
        row("a device that is not there", Pin as i32, &[0], "OUT_OF_RANGE", "devices").at(0),
        row("the last device", Pin as i32, &[u32::MAX], "OUT_OF_RANGE", "devices").at(0),
        row("a device twice", Evict as i32, &[3, 1, 3], "OUT_OF_RANGE", "devices").at(2),
        row("too many devices", Evict as i32, &many, "SIZE_TOO_LARGE", "devices"),
    ]
}

fn release(id: v1::release_request::Id) -> Call {
    Call::Release(v1::ReleaseRequest { id: Some(id) })
}

/// Everything in a status that a caller can see.
fn visible(status: &Status) -> (Code, String, Vec<u8>) {
    (status.code(), status.message().into(), status.details().into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_released_and_malformed_ids_get_the_same_answer() {
    let world = World::new(settings()).await;
    let gone = messages::id();
    let vector = messages::vector(&gone, v1::ScalarEncoding::U8, 8);
    let put = messages::put_vector(vector, vec![messages::chunk(0, vec![1; 8])]);
    store(&world.channel).put(stream::iter(put)).await.unwrap();
    release(v1::release_request::Id::UploadId(gone.clone())).send(&world.channel).await.unwrap();
    let released = world.g2_id.clone();
    let id = v1::release_request::Id::ObjectId(released.clone());
    release(id).send(&world.channel).await.unwrap();
    let mut statuses = Vec::new();
    let ids = unknown_ids(32).into_iter().map(|(_, id)| id).chain([released]);
    for (_, call) in ids.flat_map(|id| bases_calls(&world, &id)) {
        statuses.push(call.send(&world.channel).await.unwrap_err());
    }
    let ids = unknown_ids(16).into_iter().map(|(_, id)| id).chain([gone]);
    for (_, call) in ids.flat_map(|id| upload_calls(&world, &id)) {
        statuses.push(call.send(&world.channel).await.unwrap_err());
    }
    assert_eq!(statuses[0].code(), Code::NotFound);
    for status in &statuses {
        assert_eq!(visible(status), visible(&statuses[0]));
    }
    world.assert_healthy("released ids").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_conflicting_uploads_and_bases_in_transit_as_scalars() {
    let world = World::new(settings()).await;
    let upload = messages::bases::<G1Affine>(PointEncoding::Compressed, 2);
    let id = upload.upload_id.clone();
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let messages = messages::put_bases(upload.clone(), vec![messages::chunk(0, vec![0; 3])]);
    let put = tokio::spawn({
        let mut store = store(&world.channel);
        async move { store.put(tokio_stream::wrappers::ReceiverStream::new(receiver)).await }
    });
    for message in messages {
        sender.send(message).await.unwrap();
    }
    let upload_stat = || stat(v1::stat_request::Id::UploadId(id.clone())).send(&world.channel);
    retry_until_ok("bases in transit", async || upload_stat().await).await;
    let conflict = |status: Status| (status.code(), reason(&status));
    let aborted = (Code::Aborted, "UPLOAD_CONFLICT".to_owned());
    let other = v1::BasesUpload { count: 3, ..upload.clone() };
    let status = Call::put_bases(other, vec![]).send(&world.channel).await.unwrap_err();
    assert_eq!(conflict(status), aborted, "another count");
    let vector = messages::vector(&id, v1::ScalarEncoding::U8, 96);
    let call = Call::put_vector(vector, vec![]);
    assert_eq!(conflict(call.send(&world.channel).await.unwrap_err()), aborted, "another kind");
    let vector = messages::vector(&id, v1::ScalarEncoding::U8, 8);
    let call = Call::msm_stream(world.spec(), vector, vec![]);
    assert_eq!(conflict(call.send(&world.channel).await.unwrap_err()), aborted, "a job");
    let kind = (Code::FailedPrecondition, "OBJECT_KIND".to_owned());
    let on = compute(&world.channel).msm(messages::msm_on(world.spec(), &id)).await;
    assert_eq!(conflict(on.unwrap_err()), kind, "as scalars");
    release(v1::release_request::Id::UploadId(id)).send(&world.channel).await.unwrap();
    let status = put.await.unwrap().unwrap_err();
    assert_eq!((status.code(), &*reason(&status)), (Code::Cancelled, "CANCELLED"));
    drop(sender);
    world.assert_healthy("conflicts").await;
}
