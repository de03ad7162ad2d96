use super::*;
use crate::{
    curve::scalars::ScalarEncoding,
    error::{FieldProblem, TenantLimit},
    tenant::{Tenant, TenantLimits, TenantName},
};

fn header(id: u8, count: u64, streams: u32) -> UploadHeader {
    let encoding = ScalarEncoding::Unsigned(1);
    UploadHeader::Vector(VectorUploadHeader { id: UploadId([id; 16]), encoding, count, streams })
}

fn tenant(number: u32) -> Tenant {
    Tenant::new(TenantId(number), TenantName::default(), &TenantLimits::default())
}

fn uploads(uploads_max: u64) -> Uploads {
    Uploads::new(uploads_max, PayloadPool::new(0, 0).unwrap())
}

fn open(uploads: &Uploads, header: &UploadHeader) -> Result<Arc<StoredUpload>> {
    uploads.open(UploadOwner::of_tenant(&tenant(0)), header, |_| Ok(Vec::new()))
}

#[tokio::test]
async fn streams_share_an_upload_and_the_last_one_to_end_reports_truncation() {
    let uploads = uploads(4);
    let upload = open(&uploads, &header(1, 8, 2)).unwrap();
    let same = uploads
        .open(UploadOwner::of_tenant(&tenant(0)), &header(1, 8, 3), |_| panic!("is open already"))
        .unwrap();
    assert!(Arc::ptr_eq(&upload, &same));
    assert!(matches!(open(&uploads, &header(1, 9, 2)), Err(Error::UploadConflict)));
    let (first, second) = (upload.begin_stream().unwrap(), upload.begin_stream().unwrap());
    upload.write(0, &[1; 4]).unwrap();
    first.end();
    assert!(upload.payload.failure().is_none());
    second.end();
    let truncated = Error::field("chunk", FieldProblem::Length { expected: 8, got: 4 });
    assert_eq!(upload.concluded().await.err(), Some(truncated));
}

#[tokio::test]
async fn a_stream_may_end_before_the_next_begins_and_a_broken_one_may_resume() {
    let uploads = uploads(4);
    let upload = open(&uploads, &header(1, 8, 2)).unwrap();
    let early = upload.begin_stream().unwrap();
    upload.write(4, &[1; 4]).unwrap();
    early.end();
    drop(upload.begin_stream().unwrap());
    let late = upload.begin_stream().unwrap();
    upload.write(0, &[1; 4]).unwrap();
    late.end();
    assert!(upload.concluded().await.is_ok());
}

#[tokio::test]
async fn sweep_drops_idle_uploads_only() {
    let uploads = uploads(4);
    let left = open(&uploads, &header(1, 8, 1)).unwrap();
    let used = open(&uploads, &header(2, 8, 1)).unwrap();
    let vector = open(&uploads, &header(3, 0, 1)).unwrap();
    let guard = used.begin_stream().unwrap();
    used.write(0, &[1]).unwrap();
    let ttl = Duration::from_nanos(1);
    assert_eq!(uploads.drop_idle(ttl, Duration::from_secs(60), Duration::ZERO), 1);
    assert_eq!(left.concluded().await.err(), Some(EngineError::Idle(ttl).into()));
    assert_eq!(left.write(0, &[1]), Err(EngineError::Idle(ttl).into()));
    drop((guard, left, used, vector));
    assert_eq!(uploads.drop_idle(Duration::ZERO, Duration::ZERO, Duration::ZERO), 2);
    assert_eq!(uploads.slots.used(), 0);
}

#[test]
fn an_upload_is_kept_only_by_bytes_that_arrive() {
    let limits = UploadLimits { streams_max: 4, bytes_per_second_min: 1000 };
    let uploads = uploads(4).with_limits(limits);
    let ttl = Duration::from_millis(200);
    let upload = open(&uploads, &header(1, 1000, 1)).unwrap();
    let send = |offset, bytes: &[u8]| {
        let stream = upload.begin_stream().unwrap();
        upload.write(offset, bytes).unwrap();
        drop(stream);
    };
    // Faster than the least rate: 100 bytes in 50 ms.
    for turn in 0..6 {
        std::thread::sleep(Duration::from_millis(50));
        send(100 * turn, &[1; 100]);
        assert_eq!(uploads.drop_idle(ttl, ttl, Duration::ZERO), 0, "turn {turn}");
    }
    // Streams without a new byte or with few, calls that are given up, jobs and questions.
    for turn in 0..6 {
        std::thread::sleep(Duration::from_millis(50));
        send(0, &[1; 100]);
        send(600 + turn, &[1]);
        upload.mark_abandoned();
        drop(upload.begin_use());
        uploads.look_up(TenantId(0), UploadId([1; 16])).unwrap();
        uploads.get(TenantId(0), UploadId([1; 16])).unwrap();
    }
    assert_eq!(uploads.drop_idle(ttl, ttl, Duration::ZERO), 1);
}

#[test]
fn streams_without_bytes_do_not_keep_an_upload_though_one_is_always_open() {
    let limits = UploadLimits { streams_max: 4, bytes_per_second_min: 1000 };
    let uploads = uploads(4).with_limits(limits);
    let ttl = Duration::from_millis(100);
    let begun = Instant::now();
    let upload = open(&uploads, &header(1, 1000, 1)).unwrap();
    upload.write(0, &[1; 100]).unwrap();
    let mut stream = upload.begin_stream().unwrap();
    while uploads.drop_idle(ttl, ttl, Duration::ZERO) == 0 {
        std::thread::sleep(Duration::from_millis(20));
        stream = upload.begin_stream().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "streams keep the upload");
    }
    assert!(begun.elapsed() >= 3 * ttl);
    assert!(upload.payload.failure().is_some());
    drop(stream);
}

#[test]
fn an_upload_that_arrives_at_the_least_rate_is_kept_while_streams_are_open() {
    let limits = UploadLimits { streams_max: 4, bytes_per_second_min: 1 };
    let uploads = uploads(4).with_limits(limits);
    let ttl = Duration::from_millis(50);
    let upload = open(&uploads, &header(1, 1000, 1)).unwrap();
    let _stream = upload.begin_stream().unwrap();
    for turn in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        upload.write(10 * turn, &[1; 10]).unwrap();
        assert_eq!(uploads.drop_idle(ttl, ttl, Duration::ZERO), 0, "turn {turn}");
    }
}

#[test]
fn a_pause_of_the_server_does_not_count() {
    let uploads = uploads(4);
    let (ttl, pause) = (Duration::from_millis(200), Duration::from_millis(250));
    let upload = open(&uploads, &header(1, 1000, 1)).unwrap();
    upload.write(0, &[1]).unwrap();
    std::thread::sleep(pause);
    assert_eq!(uploads.drop_idle(ttl, ttl, pause), 0);
    assert_eq!(uploads.drop_idle(ttl, ttl, Duration::ZERO), 0, "nor does it later");
    std::thread::sleep(ttl);
    assert_eq!(uploads.drop_idle(ttl, ttl, Duration::ZERO), 1);
}

#[test]
fn slots_are_counted_and_returned() {
    let uploads = uploads(1);
    let upload = open(&uploads, &header(1, 8, 1)).unwrap();
    let text = crate::telemetry::metrics_of(|| {
        assert!(open(&uploads, &header(2, 8, 1)).is_err_and(|error| error.limit().is_some()));
    });
    assert!(text.contains(r#"capstan_rejected_total{limit="UPLOADS"} 1"#), "{text}");
    uploads.release(TenantId(0), UploadId([1; 16])).unwrap();
    assert_eq!(uploads.release(TenantId(0), UploadId([1; 16])), Err(Error::NOT_FOUND));
    drop(upload);
    assert!(open(&uploads, &header(2, 8, 1)).is_ok());
}

#[test]
fn tenants_have_their_own_ids_and_slots() {
    let uploads = uploads(4);
    let limits = TenantLimits { uploads_max: 1, ..TenantLimits::default() };
    let one = Tenant::new(TenantId(1), TenantName::default(), &limits);
    let two = tenant(2);
    let header = header(1, 8, 1);
    let open =
        |tenant, header| uploads.open(UploadOwner::of_tenant(tenant), header, |_| Ok(Vec::new()));
    let first = open(&one, &header).unwrap();
    let other = open(&two, &header).unwrap();
    assert!(!Arc::ptr_eq(&first, &other), "equal ids of two tenants are two uploads");
    let id = UploadId([1; 16]);
    assert_eq!(uploads.get(TenantId(3), id).err(), Some(Error::NOT_FOUND));
    let second = super::tests::header(2, 8, 1);
    let full = Limit::Tenant(TenantLimit::Uploads);
    let refused = open(&one, &second).err().unwrap();
    assert_eq!(refused.limit(), Some(full), "{refused}");
    assert!(open(&two, &second).is_ok());
    uploads.release(TenantId(2), id).unwrap();
    assert!(uploads.get(TenantId(1), id).is_ok());
    assert_eq!(uploads.release(TenantId(2), id), Err(Error::NOT_FOUND));
}

#[test]
fn a_connection_has_its_own_slots() {
    let uploads = uploads(4);
    let tenant = tenant(0);
    let slots = Quota::new(Limit::ConnectionUploads, 1);
    let owner = UploadOwner { connection: Some(&slots), ..UploadOwner::of_tenant(&tenant) };
    let open = |owner, id| uploads.open(owner, &header(id, 8, 1), |_| Ok(Vec::new()));
    let first = open(owner, 1).unwrap();
    // Another stream of the same upload takes no slot.
    assert!(Arc::ptr_eq(&open(owner, 1).unwrap(), &first));
    let full = open(owner, 2).err().unwrap();
    let limit = Limit::ConnectionUploads;
    assert_eq!(full.limit(), Some(limit), "{full}");
    assert!(open(UploadOwner::of_tenant(&tenant), 2).is_ok(), "another connection");
    uploads.release(TenantId(0), UploadId([1; 16])).unwrap();
    drop(first);
    assert_eq!((slots.used(), tenant.uploads.used(), uploads.slots.used()), (0, 1, 1));
}

#[test]
fn the_open_streams_of_an_upload_are_limited() {
    let uploads = uploads(4).with_limits(UploadLimits { streams_max: 2, bytes_per_second_min: 0 });
    let upload = open(&uploads, &header(1, 8, 2)).unwrap();
    let (first, _second) = (upload.begin_stream().unwrap(), upload.begin_stream().unwrap());
    let full = upload.begin_stream().err().unwrap();
    let limit = Limit::UploadStreams;
    assert_eq!(full.limit(), Some(limit), "{full}");
    drop(first);
    assert!(upload.begin_stream().is_ok(), "a stream has ended");
}

#[test]
fn a_chunk_that_is_too_long_is_refused_at_its_first_piece() {
    let uploads = uploads(4);
    let upload = open(&uploads, &header(1, 8, 1)).unwrap();
    let too_large = Error::field("chunk", FieldProblem::TooLarge { max: 8 });
    assert_eq!(upload.write_piece(0, &[1; 8], 1), Err(too_large.clone()));
    assert_eq!(upload.write_piece(4, &[1; 2], u64::MAX), Err(too_large));
    assert_eq!(upload.payload.received(), 0);
    assert_eq!(upload.write_piece(0, &[1; 4], 4), Ok(4));
}

#[test]
fn a_tenant_leaves_slots_to_others_if_there_are_any() {
    let uploads = uploads(32);
    let (one, two) = (tenant(1), tenant(2));
    let open = |tenant, id, has_others| {
        let owner = UploadOwner { has_others, ..UploadOwner::of_tenant(tenant) };
        uploads.open(owner, &header(id, 8, 1), |_| Ok(Vec::new()))
    };
    let opened = (0..32).filter(|id| open(&one, *id, true).is_ok()).count();
    assert_eq!(opened, 30);
    assert!(open(&two, 1, true).is_ok() && open(&two, 2, true).is_ok());
    assert!(open(&one, 40, true).is_err());
}
