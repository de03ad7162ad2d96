use ark_ec::AffineRepr;

use super::*;
use crate::curve::{
    G1Affine,
    points::{CurvePoint, PointSlice, content_hash},
};

/// Bases of `n` points, all equal to the generator.
fn generators(n: usize) -> StoredBases {
    let points = vec![G1Affine::generator(); n];
    StoredBases {
        id: ObjectId(content_hash(&points)),
        points: G1Affine::into_bases(PointSlice::new(Arc::new(points))),
        infinities: 0,
        payload: None,
        label: String::new(),
        created_s: 0,
        persisted: false,
    }
}

fn put(store: &BasesStore, n: usize, persist: bool) -> Result<ObjectId> {
    let charge = store.reserve(Group::G1, n as u64)?;
    store.insert(generators(n), charge, persist).map(|bases| bases.id)
}

#[test]
fn released_bases_keep_their_charge_until_the_last_job_drops_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    for persist in [false, true] {
        let id = put(&store, 3, persist).unwrap();
        let used = store.points(id, Group::G1, 1, Some(1)).unwrap();
        store.release(id).unwrap();
        assert_eq!(store.budget().used(), OBJECT_BYTES_MIN, "persisted: {persist}");
        drop(used);
        assert_eq!(store.budget().used(), 0, "persisted: {persist}");
    }
    put(&store, 3, true).unwrap();
    drop(store);
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let loaded = store.list().remove(0);
    let used = loaded.points.clone();
    store.release(loaded.id).unwrap();
    drop(loaded);
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
    drop(used);
    assert_eq!(store.budget().used(), 0);
}

#[test]
fn bases_stored_twice_are_counted_once() {
    let store = BasesStore::open(1 << 20, 2, None).unwrap();
    assert_eq!(put(&store, 3, false), put(&store, 3, false));
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
}

#[test]
fn limits_the_number_of_objects_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let first = put(&store, 1, true).unwrap();
    put(&store, 2, true).unwrap();
    let full = put(&store, 3, true);
    let full = full.unwrap_err();
    assert!(matches!(full, Error::Exhausted { limit: Limit::Objects, retry_after: Some(_) }));
    assert_eq!(store.budget().used(), 2 * OBJECT_BYTES_MIN, "a refused object is not charged");
    store.release(first).unwrap();
    put(&store, 3, true).expect("releasing an object made room");
    drop(store);
    let store = BasesStore::open(1 << 20, 1, Some(folder.path())).unwrap();
    assert_eq!((store.list().len(), store.slots().used()), (1, 1), "one is skipped");
}

#[test]
fn a_failed_write_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let kept = folder.path().join("bases");
    // A folder has the file's name: the file can be written but not renamed.
    std::fs::create_dir(kept.join(hex::encode(generators(3).id.0) + ".bases")).unwrap();
    assert!(matches!(put(&store, 3, true), Err(Error::Internal(_))));
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 1, "only the folder is left");
    assert_eq!(store.budget().used(), 0);
}

#[test]
fn only_one_daemon_can_open_a_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let unfinished = folder.path().join("bases/1-0.part");
    std::fs::write(&unfinished, "half").unwrap();
    let refused = BasesStore::open(1 << 20, 2, Some(folder.path())).err();
    let used = "data directory: another daemon uses it: set another data_dir";
    assert_eq!(refused, Some(Error::Internal(used.into())));
    assert!(unfinished.exists(), "the unfinished file belongs to the other daemon");
    drop(store);
    BasesStore::open(1 << 20, 2, Some(folder.path())).expect("the lock is released");
    assert!(!unfinished.exists());
}
