use std::path::Path;

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

/// Opens a store and loads its files.
fn open(bytes_max: u64, objects_max: u64, folder: &Path) -> BasesStore {
    let store = BasesStore::open(bytes_max, objects_max, Some(folder)).unwrap();
    store.load(|| false);
    store
}

fn put(store: &BasesStore, n: usize, persist: bool) -> Result<ObjectId> {
    let charge = store.reserve(Group::G1, n as u64)?;
    store.insert(generators(n), charge, persist).map(|bases| bases.id)
}

#[test]
fn released_bases_keep_their_charge_until_the_last_job_drops_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
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
    let store = open(1 << 20, 2, folder.path());
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
    let store = open(1 << 20, 2, folder.path());
    let first = put(&store, 1, true).unwrap();
    put(&store, 2, true).unwrap();
    let full = put(&store, 3, true);
    let full = full.unwrap_err();
    assert!(matches!(full, Error::Exhausted { limit: Limit::Objects, retry_after: Some(_) }));
    assert_eq!(store.budget().used(), 2 * OBJECT_BYTES_MIN, "a refused object is not charged");
    store.release(first).unwrap();
    put(&store, 3, true).expect("releasing an object made room");
    drop(store);
    let store = open(1 << 20, 1, folder.path());
    assert_eq!((store.list().len(), store.slots().used()), (1, 1), "one is skipped");
    // A file that does not fit can be released.
    let skipped = store.state.lock().unloaded.keys().copied().next().expect("one is skipped");
    assert_eq!(store.get(skipped).err(), Some(Error::NotFound));
    store.release(skipped).unwrap();
    assert_eq!(store.release(skipped), Err(Error::NotFound));
    drop(store);
    let store = open(1 << 20, 2, folder.path());
    assert_eq!((store.list().len(), store.is_loading()), (1, false), "its file is gone");
}

#[test]
fn bases_are_loading_until_their_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let id = put(&open(1 << 20, 2, folder.path()), 3, true).unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    assert_eq!(store.get(id).err(), Some(Error::Loading));
    store.load(|| true);
    assert!(store.is_loading() && store.get(id).is_err(), "it was told to stop");
    // What is released or put meanwhile stays so.
    store.release(id).unwrap();
    put(&store, 3, true).unwrap();
    store.load(|| false);
    assert_eq!((store.get(id).is_ok(), store.is_loading()), (true, false));
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
    store.release(id).unwrap();
    assert_eq!(store.get(id).err(), Some(Error::NotFound));
}

/// Several threads put and release the same bases. Whatever the order, the store and the data
/// directory agree in the end.
#[test]
fn files_agree_with_the_store_when_calls_cross() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 100, folder.path());
    let id = generators(3).id;
    let file = folder.path().join("bases").join(hex::encode(id.0) + ".bases");
    for round in 0..300 {
        std::thread::scope(|scope| {
            for persist in [true, true, false] {
                let store = &store;
                scope.spawn(move || put(store, 3, persist).expect("there is room"));
            }
            for _ in 0..2 {
                scope.spawn(|| _ = store.release(id));
            }
        });
        let is_persisted = store.get(id).is_ok_and(|bases| bases.persisted);
        assert_eq!(file.exists(), is_persisted, "round {round}");
    }
}

#[test]
fn a_failed_write_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
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
    let store = open(1 << 20, 2, folder.path());
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
