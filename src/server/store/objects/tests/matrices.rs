//! Matrices in the store.

use std::{fs, path::PathBuf};

use super::*;
use crate::{
    curve::Fr,
    sparse::{MatrixOwner, SparseBuilder, SparseMatrix, content_hash},
    wire::decode::PayloadForm,
};

/// A matrix of `rows` rows with one term each.
fn matrix(rows: u64) -> SparseMatrix {
    let mut builder = SparseBuilder::new(rows as usize, rows as usize);
    for row in 0..rows {
        builder.push_row([(Fr::from(row + 2), row as usize)]).unwrap();
    }
    builder.build().unwrap()
}

fn object(rows: u64) -> StoredObject {
    let matrix = matrix(rows);
    let hash = *blake3::hash(matrix.as_bytes()).as_bytes();
    let form = PayloadForm::Matrix(matrix.shape());
    StoredObject {
        id: ObjectId(content_hash(&matrix)),
        data: ObjectData::Matrix(matrix),
        payload: Some(PayloadId { hash, form }),
        label: "a matrix".into(),
        created_s: 5,
        persisted: false,
    }
}

/// The only file with the extension `matrix`.
fn file_of(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("bases")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|e| e == "matrix")).expect("a file")
}

#[test]
fn a_persisted_matrix_is_mapped_from_its_file_and_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 9, folder.path());
    let owner = tenant(0);
    let expected = matrix(5);
    let stored = put_of(&store, &owner, object(5), true).unwrap();
    let bases = put(&store, 3, true).unwrap();
    let check = |store: &ObjectStore| {
        let matrix = store.matrix(owner.id, stored.id).unwrap();
        assert_eq!(matrix, expected);
        assert_eq!(matrix.file().expect("a file").1, 256, "after the header");
        let found = store.by_payload(owner.id, &object(5).payload.unwrap()).unwrap();
        assert_eq!((&*found.label, found.created_s, found.persisted), ("a matrix", 5, true));
        assert_eq!(store.budget().used(), 2 * OBJECT_BYTES_MIN);
        assert_eq!(store.list(owner.id).len(), 2);
    };
    check(&store);
    drop(store);
    let store = open_again(folder.path());
    check(&store);
    assert_eq!(wait(store.release(&owner, stored.id)), Ok(ObjectKind::Matrix));
    assert_eq!(wait(store.release(&owner, bases)), Ok(ObjectKind::Bases));
    drop(store);
    assert!(open_again(folder.path()).list(owner.id).is_empty(), "the files are gone");
}

/// Opens a data directory once the store that used it has been dropped.
fn open_again(folder: &Path) -> Arc<ObjectStore> {
    open(1 << 20, 9, folder)
}

#[test]
fn objects_of_another_kind_are_refused() {
    let store = Arc::new(ObjectStore::open(1 << 20, 9, None, &Tenants::default()).unwrap());
    let owner = tenant(0);
    let of_matrix = put_of(&store, &owner, object(3), false).unwrap().id;
    let of_bases = put(&store, 3, false).unwrap();
    let mismatch = |held: &str, needed: &str| {
        Some(Error::Mismatch { held: held.into(), needed: needed.into() })
    };
    let points = |group| store.points(owner.id, of_matrix, group, 0, None).err();
    assert_eq!(points(Group::G2), mismatch("a matrix", "bases of g2"));
    assert_eq!(store.bases(owner.id, of_matrix).err(), mismatch("a matrix", "bases"));
    let refused = store.matrix(owner.id, of_bases).err();
    assert_eq!(refused, mismatch("bases of g1", "a matrix"));
    let unknown = store.matrix(owner.id, ObjectId([7; 32])).err();
    assert_eq!(unknown, Some(Error::NOT_FOUND));
    assert_eq!(store.matrix(tenant(1).id, of_matrix).err(), Some(Error::NOT_FOUND));
    let id = of_matrix;
    release(&store, &owner, id).unwrap();
    assert_eq!(store.matrix(owner.id, id).err(), Some(Error::NOT_FOUND));
}

#[test]
fn a_matrix_is_loading_until_its_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let id = put_of(&open(1 << 20, 2, folder.path()), &tenant(0), object(4), true).unwrap().id;
    let store = ObjectStore::open(1 << 20, 2, Some(folder.path()), &Tenants::default()).unwrap();
    assert_eq!(store.matrix(TenantId(0), id).err(), Some(Error::Loading));
    store.load(&Tenants::default(), || false);
    assert!(store.matrix(TenantId(0), id).is_ok() && !store.is_loading());
}

#[test]
fn a_released_matrix_keeps_its_charge_until_the_last_job_drops_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
    let owner = tenant(0);
    for persist in [false, true] {
        let id = put_of(&store, &owner, object(4), persist).unwrap().id;
        let used = store.matrix(owner.id, id).unwrap();
        release(&store, &owner, id).unwrap();
        let charged = (store.budget().used(), owner.store_bytes.used());
        assert_eq!(charged, (OBJECT_BYTES_MIN, OBJECT_BYTES_MIN), "persisted: {persist}");
        drop(used);
        assert_eq!((store.budget().used(), owner.store_bytes.used()), (0, 0));
    }
}

#[test]
fn each_tenant_has_its_own_copy_of_a_matrix() {
    let store = Arc::new(ObjectStore::open(1 << 20, 4, None, &Tenants::default()).unwrap());
    let [one, two] = [1, 2].map(tenant);
    let id = put_of(&store, &one, object(4), false).unwrap().id;
    assert_eq!(store.matrix(two.id, id).err(), Some(Error::NOT_FOUND));
    assert_eq!(release(&store, &two, id), Err(Error::NOT_FOUND));
    put_of(&store, &two, object(4), false).unwrap();
    let [first, second] = [&one, &two].map(|tenant| store.matrix(tenant.id, id).unwrap());
    assert_ne!(first.as_bytes().as_ptr(), second.as_bytes().as_ptr());
    assert!(!first.downgrade().is_of(&second));
    release(&store, &one, id).unwrap();
    assert!(store.matrix(two.id, id).is_ok());
}

#[test]
fn damaged_files_of_matrices_are_skipped() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 8] = [
        |file| *file.last_mut().unwrap() ^= 1,
        |file| file.truncate(file.len() - 1),
        |file| file.truncate(100),
        |file| file.clear(),
        |file| file[0] ^= 1,
        |file| file[16] ^= 1,
        |file| file[15] = 0xff,
        |file| file.extend([0; 4]),
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(1 << 20, 9, folder.path());
        let id = put_of(&store, &tenant(0), object(4), true).unwrap().id;
        drop(store);
        let path = file_of(folder.path());
        let mut content = fs::read(&path).unwrap();
        damage(&mut content);
        fs::write(&path, &content).unwrap();
        let store = open_again(folder.path());
        let found = store.matrix(TenantId(0), id).err();
        assert_eq!(found, Some(Error::NOT_FOUND), "damage {index} went unnoticed");
        assert_eq!(store.budget().used(), 0, "damage {index}");
        put_of(&store, &tenant(0), object(4), true).unwrap();
        drop(store);
        let again = open_again(folder.path());
        assert!(again.matrix(TenantId(0), id).is_ok(), "damage {index} was not repaired");
    }
}

/// A file that someone else wrote, with the right name: the matrix itself is not valid.
#[test]
fn a_matrix_that_is_not_valid_is_not_loaded_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = object(4);
    let ObjectData::Matrix(good) = &bad.data else { panic!("a matrix") };
    let mut limbs = vec![0_u64; good.as_bytes().len().div_ceil(8)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut limbs);
    bytes[..good.as_bytes().len()].copy_from_slice(good.as_bytes());
    // The column of the first term, after 4 coefficients.
    bytes[4 * 32] = 200;
    let owner: Arc<dyn MatrixOwner> = Arc::new(limbs);
    let matrix = SparseMatrix::unchecked(good.shape(), owner).unwrap();
    bad.id = ObjectId(content_hash(&matrix));
    bad.data = ObjectData::Matrix(matrix);
    let store = open(1 << 20, 9, folder.path());
    let id = put_of(&store, &tenant(0), bad, true).unwrap().id;
    drop(store);
    assert_eq!(open_again(folder.path()).get(TenantId(0), id).err(), Some(Error::NOT_FOUND));
}
