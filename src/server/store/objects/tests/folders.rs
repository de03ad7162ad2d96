//! The folders of a data directory.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
};

use super::*;

#[test]
fn only_one_daemon_can_open_a_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 2, folder.path());
    let unfinished = folder.path().join("bases/1-0.part");
    fs::write(&unfinished, "half").unwrap();
    let refused = ObjectStore::open(1 << 20, 2, Some(folder.path()), &Tenants::default()).err();
    let used = format!("data_dir: {}: another daemon uses it", folder.path().display());
    assert_eq!(refused.map(|problem| problem.to_string()), Some(used));
    assert!(unfinished.exists(), "the unfinished file belongs to the other daemon");
    drop(store);
    ObjectStore::open(1 << 20, 2, Some(folder.path()), &Tenants::default())
        .expect("the lock is released");
    assert!(!unfinished.exists());
}

#[test]
fn folders_of_tenants_are_not_taken_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let tenants = Tenants::default();
    for name in ["a.part", "a.bases"] {
        let tenant = tenants.find(Some(name), "").unwrap();
        let open = || ObjectStore::open(1 << 20, 9, Some(folder.path()), &tenants).unwrap();
        let store = Arc::new(open());
        let id = put_of(&store, &tenant, generators(3), true).unwrap().id;
        drop(store);
        let store = open();
        store.load(&tenants, || false);
        assert!(store.get(tenant.id, id).is_ok(), "{name}");
    }
}

/// A link to itself cannot be examined, not even by root.
#[test]
fn a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    for name in ["bases", "bases/team", "lock"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&path, &path).unwrap();
        let opened = ObjectStore::open(1 << 20, 9, Some(folder.path()), &Tenants::default());
        let problem = opened.err().unwrap().to_string();
        assert!(problem.contains(path.to_str().unwrap()), "{name}: {problem}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bases")).unwrap();
    // Of no tenant.
    symlink("nowhere", folder.path().join("bases/team")).unwrap();
    symlink("B", folder.path().join("bases/B")).unwrap();
    open(1 << 20, 9, folder.path());
    File::create(folder.path().join("file")).unwrap();
    let below_a_file = folder.path().join("file/data");
    assert!(ObjectStore::open(1 << 20, 9, Some(&below_a_file), &Tenants::default()).is_err());
}

#[test]
fn an_object_whose_file_cannot_be_examined_is_not_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 9, folder.path());
    let team = tenant(1);
    let id = put_of(&store, &team, generators(3), true).unwrap().id;
    let files = folder.path().join("bases/t1");
    fs::rename(&files, folder.path().join("away")).unwrap();
    symlink(&files, &files).unwrap();
    assert_eq!(release(&store, &team, id), Err(Error::DISK_FAILED));
    assert!(store.get(team.id, id).is_ok());
    fs::remove_file(&files).unwrap();
    fs::rename(folder.path().join("away"), &files).unwrap();
    release(&store, &team, id).unwrap();
    assert_eq!(fs::read_dir(&files).unwrap().count(), 0);
}
