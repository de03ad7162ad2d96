//! Uploads that several lanes open, resume, end and lose.

use std::{sync::Arc, time::Duration};

use capstan::{
    buffer::{PayloadPool, Quota, UploadBuffer},
    curve::scalars::ScalarEncoding,
    error::{EngineError, FieldProblem, Limit, ServiceError},
    store::{StoredUpload, UploadHeader, UploadOutcome, UploadOwner, Uploads},
    tenant::{Tenant, Tenants},
    wire::decode::{UploadId, VectorUploadHeader},
};
use shuttle::{
    future::block_on,
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, JoinHandle},
};

use crate::check;

const LEN: u64 = 8;
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Store {
    uploads: Uploads,
    tenant: Arc<Tenant>,
    budget: Arc<Quota>,
    admitted: AtomicUsize,
}

fn vector(streams: u32) -> VectorUploadHeader {
    let encoding = ScalarEncoding::Unsigned(1);
    VectorUploadHeader { id: UploadId([1; 16]), encoding, count: LEN, streams }
}

impl Store {
    fn new() -> Arc<Self> {
        let pool = PayloadPool::new(0, 0).expect("memory");
        Arc::new(Self {
            uploads: Uploads::new(4, pool),
            tenant: Tenants::default().find(None, "").expect("the default tenant"),
            budget: Quota::new(Limit::BytesInFlight, 1 << 20),
            admitted: AtomicUsize::new(0),
        })
    }

    fn owner(&self) -> UploadOwner<'_> {
        UploadOwner::of_tenant(&self.tenant)
    }

    fn open(&self, streams: u32) -> Result<Arc<StoredUpload>, ServiceError> {
        self.uploads.open(self.owner(), &UploadHeader::Vector(vector(streams)), |bytes| {
            self.admitted.fetch_add(1, Ordering::SeqCst);
            Ok(vec![self.budget.acquire(bytes)?])
        })
    }

    /// Sends some bytes on a new stream, which ends properly.
    fn send(
        &self,
        streams: u32,
        offset: u64,
        len: usize,
    ) -> Result<Arc<StoredUpload>, ServiceError> {
        let upload = self.open(streams)?;
        let stream = upload.begin_stream()?;
        upload.write(offset, &vec![7; len])?;
        stream.end();
        Ok(upload)
    }

    /// Like [`Self::send`], but the connection breaks.
    fn send_and_break(&self, offset: u64, len: usize) -> Result<(), ServiceError> {
        let upload = self.open(2)?;
        let _broken = upload.begin_stream()?;
        upload.write(offset, &vec![7; len]).map(drop)
    }

    fn assert_empty(&self) {
        self.uploads.drop_idle(Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let used = (self.tenant.uploads.used(), self.budget.used());
        assert_eq!(used, (0, 0), "permits are left");
    }
}

fn spawn<T: Send + 'static>(
    store: &Arc<Store>,
    lane: impl FnOnce(&Store) -> T + Send + 'static,
) -> JoinHandle<T> {
    let store = store.clone();
    thread::spawn(move || lane(&store))
}

fn concluded(upload: &StoredUpload) -> Result<(), ServiceError> {
    let outcome = block_on(upload.concluded())?;
    assert!(matches!(outcome, UploadOutcome::Vector));
    assert!(upload.payload.is_complete(), "concluded before it was complete");
    Ok(())
}

#[test]
fn lanes_that_open_the_same_id_share_one_upload() {
    check(|| {
        let store = Store::new();
        let lanes = [(0, 5), (3, 5)]
            .map(|(offset, len)| spawn(&store, move |store| store.send(2, offset, len)));
        let [one, other] = lanes.map(|lane| lane.join().unwrap().expect("a shared upload"));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(store.admitted.load(Ordering::SeqCst), 1, "admitted twice");
        assert_eq!(concluded(&one), Ok(()));
        drop((one, other));
        store.assert_empty();
    });
}

#[test]
fn a_lane_that_breaks_and_resumes_loses_nothing() {
    check(|| {
        let store = Store::new();
        let broken = spawn(&store, |store| {
            store.send_and_break(0, 2).expect("room");
            store.send(2, 0, 4).map(drop)
        });
        let other = spawn(&store, |store| store.send(2, 4, 4));
        assert_eq!(broken.join().unwrap(), Ok(()));
        let upload = other.join().unwrap().expect("an upload");
        assert_eq!(concluded(&upload), Ok(()));
        drop(upload);
        store.assert_empty();
    });
}

#[test]
fn lanes_that_all_end_without_a_byte_fail_the_upload() {
    check(|| {
        let store = Store::new();
        let lanes = [(0, 4), (5, 3)]
            .map(|(offset, len)| spawn(&store, move |store| store.send(2, offset, len)));
        let [upload, _] = lanes.map(|lane| lane.join().unwrap().expect("room"));
        // Not only after the idle timeout: all lanes have ended here.
        let problem = FieldProblem::Length { expected: LEN, got: LEN - 1 };
        assert_eq!(upload.payload.failure(), Some(EngineError::field("chunk", problem)));
        assert!(concluded(&upload).is_err());
    });
}

#[test]
fn an_upload_that_expires_or_is_released_ends_once() {
    check(|| {
        let store = Store::new();
        let lanes = [(0, 4), (4, 4)].map(|(offset, len)| {
            spawn(&store, move |store| {
                let upload = store.open(2)?;
                let stream = upload.begin_stream()?;
                let written = upload.write(offset, &vec![7; len]);
                match written {
                    Ok(_) => stream.end(),
                    Err(_) => drop(stream),
                }
                let in_use = upload.begin_use();
                if in_use.upload().payload.is_complete() || upload.payload.failure().is_some() {
                    let outcome = concluded(&upload);
                    assert_eq!(concluded(&upload), outcome, "concluded twice");
                }
                Ok::<_, ServiceError>(())
            })
        });
        let sweeper =
            spawn(&store, |store| store.uploads.drop_idle(Duration::ZERO, DAY, Duration::ZERO));
        let release = spawn(&store, |store| {
            match store.uploads.release(store.tenant.id, UploadId([1; 16])) {
                Ok(()) | Err(ServiceError::NOT_FOUND) => {}
                Err(other) => panic!("{other}"),
            }
        });
        for lane in lanes {
            assert_eq!(lane.join().unwrap(), Ok(()));
        }
        sweeper.join().unwrap();
        release.join().unwrap();
        store.assert_empty();
    });
}

#[test]
fn an_upload_in_use_is_not_swept() {
    check(|| {
        let store = Store::new();
        let upload = store.send(1, 0, LEN as usize).expect("room");
        let in_use = upload.begin_use();
        let sweeper = spawn(&store, |store| {
            store.uploads.drop_idle(Duration::ZERO, Duration::ZERO, Duration::ZERO)
        });
        let look = spawn(&store, |store| store.uploads.get(store.tenant.id, UploadId([1; 16])));
        assert_eq!(sweeper.join().unwrap(), 0);
        assert!(look.join().unwrap().is_ok());
        drop((in_use, upload));
        store.assert_empty();
    });
}

#[test]
fn a_vector_to_keep_and_an_upload_never_share_an_id() {
    check(|| {
        let store = Store::new();
        let keep = spawn(&store, |store| {
            let kept = store.uploads.reserve(store.owner(), vec![vector(1)])?;
            let pool = PayloadPool::new(0, 0).expect("memory");
            let payload = UploadBuffer::from_bytes(&pool, &[9; 8], vec![])?;
            store.uploads.keep(kept, vec![payload.into()])
        });
        let upload = spawn(&store, |store| store.send(1, 0, LEN as usize));
        let kept = keep.join().unwrap();
        let upload = upload.join().unwrap().expect("equal headers share an upload");
        let held = store.uploads.get(store.tenant.id, UploadId([1; 16])).expect("one of them");
        match kept {
            // It replaces a complete upload, or the lane has found it.
            Ok(()) => assert_eq!(held.payload.copy(0, 1), [9]),
            Err(error) => {
                assert_eq!(error, ServiceError::UploadConflict);
                assert!(Arc::ptr_eq(&held, &upload));
            }
        }
        drop((held, upload));
        store.assert_empty();
        assert_eq!(store.tenant.vectors.used(), 0);
    });
}
