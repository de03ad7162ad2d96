//! Bases in the store, and what holds for all objects.

mod folders;
mod matrices;
mod recheck;

use std::{path::Path, sync::LazyLock, time::Duration};

use ark_ec::AffineRepr;
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::{sleep, timeout},
};

use super::*;
use crate::{
    curve::{
        G1Affine, Group,
        points::{Bases, CurvePoint, PointSlice, WeakOwner, content_hash},
    },
    error::{EngineError, TenantLimit},
    tenant::{TenantLimits, TenantName},
};

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(60);

fn tenant(number: u32) -> Arc<Tenant> {
    let name = if number == 0 { "default".to_owned() } else { format!("t{number}") };
    let name = TenantName::new(&name).unwrap();
    Arc::new(Tenant::new(TenantId(number), name, &TenantLimits::default()))
}

/// Bases of `n` points, all equal to the generator.
fn generators(n: usize) -> StoredObject {
    let points = vec![G1Affine::generator(); n];
    StoredObject {
        id: ObjectId(content_hash(&points)),
        data: ObjectData::Bases(StoredPoints {
            points: G1Affine::into_bases(PointSlice::new(Arc::new(points))),
            infinities: 0,
        }),
        payload: None,
        label: String::new(),
        created_s: 0,
        persisted: false,
    }
}

fn points_of(object: &StoredObject) -> &Bases {
    match &object.data {
        ObjectData::Bases(bases) => &bases.points,
        ObjectData::Matrix(_) => panic!("not bases"),
    }
}

/// Opens a store and loads its files.
fn open(bytes_max: u64, objects_max: u64, folder: &Path) -> Arc<ObjectStore> {
    let store =
        ObjectStore::open(bytes_max, objects_max, Some(folder), &Tenants::default()).unwrap();
    store.load(&Tenants::default(), || false);
    store.into()
}

/// Waits for a call of the store.
fn wait<T>(call: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    RUNTIME.block_on(call)
}

fn put(store: &Arc<ObjectStore>, n: usize, persist: bool) -> Result<ObjectId> {
    put_of(store, &tenant(0), generators(n), persist).map(|bases| bases.id)
}

fn put_of(
    store: &Arc<ObjectStore>,
    tenant: &Arc<Tenant>,
    object: StoredObject,
    persist: bool,
) -> Result<Arc<StoredObject>> {
    let charge = store.reserve(tenant, object.bytes())?;
    wait(store.insert(tenant, object, charge, persist))
}

fn release(store: &Arc<ObjectStore>, tenant: &Arc<Tenant>, id: ObjectId) -> Result<()> {
    wait(store.release(tenant, id)).map(drop)
}

#[test]
fn released_bases_keep_their_charge_until_the_last_job_drops_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
    for persist in [false, true] {
        let id = put(&store, 3, persist).unwrap();
        let used = store.points(TenantId(0), id, Group::G1, 1, Some(1)).unwrap();
        release(&store, &tenant(0), id).unwrap();
        assert_eq!(store.budget().used(), OBJECT_BYTES_MIN, "persisted: {persist}");
        drop(used);
        assert_eq!(store.budget().used(), 0, "persisted: {persist}");
    }
    put(&store, 3, true).unwrap();
    drop(store);
    let store = open(1 << 20, 2, folder.path());
    let loaded = store.list(TenantId(0)).remove(0);
    let used = points_of(&loaded).clone();
    release(&store, &tenant(0), loaded.id).unwrap();
    drop(loaded);
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
    drop(used);
    assert_eq!(store.budget().used(), 0);
}

#[test]
fn bases_stored_twice_are_counted_once() {
    let store = Arc::new(ObjectStore::open(1 << 20, 2, None, &Tenants::default()).unwrap());
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
    assert!(matches!(
        full,
        Error::Engine(EngineError::Exhausted { limit: Limit::Objects, retry_after: Some(_) })
    ));
    assert_eq!(store.budget().used(), 2 * OBJECT_BYTES_MIN, "a refused object is not charged");
    release(&store, &tenant(0), first).unwrap();
    put(&store, 3, true).expect("releasing an object made room");
    drop(store);
    let store = open(1 << 20, 1, folder.path());
    assert_eq!((store.list(TenantId(0)).len(), store.slots().used()), (1, 1), "one is skipped");
    // A file that does not fit can be released.
    let skipped = store.state.lock().unloaded.keys().next().expect("one is skipped").id;
    assert_eq!(store.get(TenantId(0), skipped).err(), Some(Error::NOT_FOUND));
    release(&store, &tenant(0), skipped).unwrap();
    assert_eq!(release(&store, &tenant(0), skipped), Err(Error::NOT_FOUND));
    drop(store);
    let store = open(1 << 20, 2, folder.path());
    assert_eq!((store.list(TenantId(0)).len(), store.is_loading()), (1, false), "its file is gone");
}

#[test]
fn bases_are_loading_until_their_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let id = put(&open(1 << 20, 2, folder.path()), 3, true).unwrap();
    let store = ObjectStore::open(1 << 20, 2, Some(folder.path()), &Tenants::default());
    let store = Arc::new(store.unwrap());
    assert_eq!(store.get(TenantId(0), id).err(), Some(Error::Loading));
    store.load(&Tenants::default(), || true);
    assert!(store.is_loading() && store.get(TenantId(0), id).is_err(), "it was told to stop");
    // What is released or put meanwhile stays so.
    release(&store, &tenant(0), id).unwrap();
    put(&store, 3, true).unwrap();
    store.load(&Tenants::default(), || false);
    assert_eq!((store.get(TenantId(0), id).is_ok(), store.is_loading()), (true, false));
    assert_eq!(store.budget().used(), OBJECT_BYTES_MIN);
    release(&store, &tenant(0), id).unwrap();
    assert_eq!(store.get(TenantId(0), id).err(), Some(Error::NOT_FOUND));
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
                scope.spawn(|| _ = release(&store, &tenant(0), id));
            }
        });
        let is_persisted = store.get(TenantId(0), id).is_ok_and(|bases| bases.persisted);
        assert_eq!(file.exists(), is_persisted, "round {round}");
    }
}

/// The test above cannot force the orders that were wrong: a call that changes files waits for the
/// other ones of its tenant, from its look at the store to the end of its change.
#[test]
fn a_call_that_changes_files_waits_for_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
    let owner = tenant(0);
    let first = put(&store, 3, true).unwrap();
    wait(async {
        let another_call = store.lock_files(owner.id).await;
        let charge = store.reserve(&owner, 4 * 96).unwrap();
        let (inserting, releasing) = (store.clone(), store.clone());
        let (inserter, releaser) = (owner.clone(), owner.clone());
        let insert = async move { inserting.insert(&inserter, generators(4), charge, true).await };
        let insert = tokio::spawn(insert);
        let release = tokio::spawn(async move { releasing.release(&releaser, first).await });
        sleep(Duration::from_millis(200)).await;
        assert!(!insert.is_finished() && !release.is_finished(), "a call did not wait");
        assert_eq!(store.list(owner.id).len(), 1);
        drop(another_call);
        assert!(insert.await.unwrap().is_ok() && release.await.unwrap().is_ok());
    });
    assert_eq!((store.get(owner.id, first).is_ok(), store.list(owner.id).len()), (false, 1));
}

/// The disk may be slow, and the threads for blocking work are few.
#[test]
fn calls_that_wait_for_the_files_of_a_tenant_keep_no_other_tenant_from_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 9, folder.path());
    let (busy, other) = (tenant(1), tenant(2));
    let put = |tenant, n| put_of(&store, tenant, generators(n), true).unwrap().id;
    let held = [1, 2, 3, 4].map(|n| put(&busy, n));
    let released = put(&other, 1);
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        // As if a call of this tenant waited for the disk.
        let files = store.lock_files(busy.id).await;
        let waiting = held.map(|id| {
            let store = store.clone();
            let busy = busy.clone();
            tokio::spawn(async move { store.release(&busy, id).await })
        });
        yield_now().await;
        let call = timeout(HANGING, store.release(&other, released));
        assert_eq!(call.await, Ok(Ok(ObjectKind::Bases)), "another tenant waits");
        let charge = store.reserve(&other, 96).unwrap();
        let call = timeout(HANGING, store.insert(&other, generators(1), charge, true));
        assert!(call.await.is_ok_and(|stored| stored.is_ok()), "another tenant waits");
        drop(files);
        for call in waiting {
            assert_eq!(call.await.unwrap(), Ok(ObjectKind::Bases));
        }
    });
    assert!(store.list(busy.id).is_empty());
}

#[test]
fn a_failed_write_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
    let kept = folder.path().join("bases");
    // A folder has the file's name: the file can be written but not renamed.
    std::fs::create_dir(kept.join(hex::encode(generators(3).id.0) + ".bases")).unwrap();
    assert!(matches!(put(&store, 3, true), Err(Error::DISK_FAILED)));
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 1, "only the folder is left");
    assert_eq!(store.budget().used(), 0);
}

#[test]
fn tenants_share_equal_points_and_nothing_else() {
    let store = Arc::new(ObjectStore::open(1 << 20, 4, None, &Tenants::default()).unwrap());
    let (one, two) = (tenant(1), tenant(2));
    let put = |tenant, label: &str| {
        let bases = StoredObject { label: label.into(), ..generators(3) };
        put_of(&store, tenant, bases, false).unwrap()
    };
    let first = put(&one, "one");
    assert_eq!(store.get(two.id, first.id).err(), Some(Error::NOT_FOUND));
    assert_eq!(release(&store, &two, first.id), Err(Error::NOT_FOUND));
    let second = put(&two, "two");
    let (of_first, of_second) = (points_of(&first), points_of(&second));
    assert_eq!(of_first.as_bytes().as_ptr(), of_second.as_bytes().as_ptr(), "shared memory");
    assert!(WeakOwner::of(of_first).owns(of_first));
    let is_mistaken_for_first = WeakOwner::of(of_first).owns(of_second);
    assert!(!is_mistaken_for_first, "what an engine keeps of one is not used for the other");
    assert_ne!(of_first.owner_address(), of_second.owner_address(), "no common batches");
    assert_eq!((&*first.label, &*second.label), ("one", "two"));
    let used = |tenant: &Tenant| tenant.store_bytes.used();
    assert_eq!((used(&one), used(&two)), (OBJECT_BYTES_MIN, OBJECT_BYTES_MIN));
    release(&store, &one, first.id).unwrap();
    drop(first);
    assert_eq!((used(&one), used(&two)), (0, OBJECT_BYTES_MIN), "each returns its own charge");
    assert!(store.get(two.id, second.id).is_ok() && store.list(one.id).is_empty());
}

#[test]
fn a_tenant_has_its_own_limit_and_its_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let tenants = Tenants::default();
    let open = || {
        let store = ObjectStore::open(1 << 20, 9, Some(folder.path()), &tenants).unwrap();
        store.load(&tenants, || false);
        Arc::new(store)
    };
    let limits = TenantLimits { store_bytes_max: OBJECT_BYTES_MIN, ..TenantLimits::default() };
    let limited = Arc::new(Tenant::new(TenantId(7), TenantName::new("a").unwrap(), &limits));
    let other = tenants.find(Some("b"), "").unwrap();
    let store = open();
    let put = |tenant| put_of(&store, tenant, generators(3), true).map(|bases| bases.id);
    let id = put(&limited).unwrap();
    let full = put(&limited).unwrap_err();
    let expected = Limit::Tenant(TenantLimit::StoreBytes);
    assert_eq!(full.limit(), Some(expected), "{full}");
    put(&other).unwrap();
    release(&store, &limited, id).unwrap();
    drop(store);
    let store = open();
    assert!(store.get(other.id, id).is_ok(), "the file of another tenant is kept");
    let released = tenants.find(Some("a"), "").unwrap();
    assert_eq!(store.get(released.id, id).err(), Some(Error::NOT_FOUND));
}

#[test]
fn damaged_bases_are_unknown_until_they_are_put_again_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 4, folder.path());
    let files = || std::fs::read_dir(folder.path().join("bases")).unwrap().count();
    for persist_again in [false, true] {
        let id = put(&store, 3, true).unwrap();
        points_of(&store.get(TenantId(0), id).unwrap()).mark_damaged();
        assert_eq!(store.get(TenantId(0), id).err(), Some(Error::NOT_FOUND));
        assert!(store.list(TenantId(0)).is_empty());
        put(&store, 3, persist_again).unwrap();
        assert_eq!(store.get(TenantId(0), id).unwrap().persisted, persist_again);
        assert_eq!(files(), 1, "the file is still there");
        release(&store, &tenant(0), id).unwrap();
        assert_eq!((files(), store.budget().used()), (0, 0), "persisted again: {persist_again}");
    }
}

#[test]
fn tenants_with_persisted_bases_depend_on_their_own_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 4, folder.path());
    let (one, two, three) = (tenant(1), tenant(2), tenant(3));
    let of_one = put_of(&store, &one, generators(3), true).unwrap();
    let of_two = put_of(&store, &two, generators(3), true).unwrap();
    let of_three = put_of(&store, &three, generators(3), false).unwrap();
    points_of(&of_one).mark_damaged();
    assert!(store.get(one.id, of_one.id).is_err());
    assert!(store.get(two.id, of_two.id).is_ok() && store.get(three.id, of_three.id).is_ok());
}

#[test]
fn a_tenant_leaves_bytes_and_objects_to_others_if_there_are_any() {
    let min = OBJECT_BYTES_MIN;
    let open = |objects_max| {
        ObjectStore::open(1600 * min, objects_max, None, &Tenants::default()).unwrap()
    };
    let (one, two) = (tenant(1), tenant(2));
    let store = open(1000);
    let all = store.reserve_share(&one, 1600 * min, false).unwrap();
    drop(all);
    assert!(store.reserve_share(&one, 1501 * min, true).is_err(), "a sixteenth is left");
    assert_eq!(store.budget().used(), 0, "a refusal takes nothing");
    let _most = store.reserve_share(&one, 1500 * min, true).unwrap();
    let _other = store.reserve_share(&two, 100 * min, true).expect("has a sixteenth");
    assert!(store.reserve_share(&one, min, true).is_err());
    // Small objects take slots.
    let store = open(32);
    let one = tenant(3);
    let two = tenant(4);
    let taken: Vec<_> = (0..32).flat_map(|_| store.reserve_share(&two, 1, true)).collect();
    assert_eq!(taken.len(), 30);
    assert!(store.reserve_share(&one, 1, true).is_ok());
}
