use ark_ec::AffineRepr;

use super::*;
use crate::curve::{
    G1Affine,
    points::{CurvePoint, id_of},
};

/// Bases of `n` points, all the generator.
fn some(n: usize) -> StoredBases {
    let points = vec![G1Affine::generator(); n];
    StoredBases {
        id: ObjectId(id_of(&points)),
        points: G1Affine::bases(PointSlice::new(Arc::new(points))),
        infinities: 0,
        payload: None,
        label: String::new(),
        created_s: 0,
        persisted: false,
    }
}

fn put(store: &BasesStore, n: usize, persist: bool) -> Result<ObjectId> {
    let room = store.room(Group::G1, n as u64)?;
    store.insert(some(n), room, persist).map(|bases| bases.id)
}

#[test]
fn released_bases_are_counted_until_the_last_job_has_let_go_of_them() {
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
fn bases_that_are_there_already_are_counted_once() {
    let store = BasesStore::open(1 << 20, 2, None).unwrap();
    assert_eq!(put(&store, 3, false), put(&store, 3, false));
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
}

#[test]
fn objects_are_limited_however_small_on_disk_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let first = put(&store, 1, true).unwrap();
    put(&store, 2, true).unwrap();
    let full = put(&store, 3, true);
    let expected = Limit::Objects;
    assert!(
        matches!(full, Err(Error::Exhausted { limit, retry_after: Some(_) }) if limit == expected)
    );
    assert_eq!(store.budget().used(), 2 * OBJECT_BYTES_MIN, "what was refused takes nothing");
    store.release(first).unwrap();
    put(&store, 3, true).expect("room again");
    drop(store);
    let store = BasesStore::open(1 << 20, 1, Some(folder.path())).unwrap();
    assert_eq!((store.list().len(), store.slots().used()), (1, 1), "the other is left out");
}

#[test]
fn bases_that_cannot_be_kept_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let kept = folder.path().join("bases");
    // Where the file should go there is a folder: it is written, but cannot be renamed.
    std::fs::create_dir(kept.join(hex::encode(some(3).id.0) + ".bases")).unwrap();
    assert!(matches!(put(&store, 3, true), Err(Error::Internal(_))));
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 1, "only the folder is there");
    assert_eq!(store.budget().used(), 0);
}

#[test]
fn a_data_directory_is_one_daemons() {
    let folder = tempfile::tempdir().unwrap();
    let store = BasesStore::open(1 << 20, 2, Some(folder.path())).unwrap();
    let unfinished = folder.path().join("bases/1-0.part");
    std::fs::write(&unfinished, "half").unwrap();
    let refused = BasesStore::open(1 << 20, 2, Some(folder.path())).err();
    assert_eq!(refused, Some(Error::Internal("data directory: another daemon uses it".into())));
    assert!(unfinished.exists(), "it is the other daemon's");
    drop(store);
    BasesStore::open(1 << 20, 2, Some(folder.path())).expect("free again");
    assert!(!unfinished.exists());
}
