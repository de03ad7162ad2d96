//! Objects that change after they were checked.

use std::cell::Cell;

use super::*;

#[test]
fn damaged_objects_are_forgotten_by_all_tenants_that_share_their_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 9, folder.path());
    let (one, two) = (tenant(1), tenant(2));
    // As if a bit had changed after the points were stored.
    let wrong = || StoredObject { id: ObjectId([7; 32]), ..generators(3) };
    let damaged = put_of(&store, &one, wrong(), false).unwrap().id;
    put_of(&store, &two, wrong(), false).unwrap();
    let sound = put_of(&store, &one, generators(3), false).unwrap().id;
    let check = |tenant: &Arc<Tenant>, id| store.check_again(tenant, id, || true);
    assert_eq!(check(&one, sound), ObjectCheck::Intact);
    assert_eq!(store.check_again(&one, damaged, || false), ObjectCheck::Unknown, "stopped");
    assert!(store.get(one.id, damaged).is_ok());
    let others = vec![two.id];
    assert_eq!(check(&one, damaged), ObjectCheck::Damaged { others });
    for tenant in [&one, &two] {
        assert!(store.get(tenant.id, damaged).is_err());
        assert_eq!(check(tenant, damaged), ObjectCheck::Unknown);
    }
    assert!(store.get(one.id, sound).is_ok());
}

#[test]
fn a_file_that_is_found_damaged_is_written_again_by_the_next_put() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(1 << 20, 9, folder.path());
    let owner = tenant(0);
    let id = put_of(&store, &owner, generators(3), true).unwrap().id;
    let path = folder.path().join("bases").join(hex::encode(id.0) + ".bases");
    let mut content = std::fs::read(&path).unwrap();
    *content.last_mut().unwrap() ^= 1;
    // In place, like a disk.
    std::fs::write(&path, content).unwrap();
    let pieces = Cell::new(0);
    let count_pieces = || {
        pieces.set(pieces.get() + 1);
        true
    };
    let others = Vec::new();
    assert_eq!(store.check_again(&owner, id, count_pieces), ObjectCheck::Damaged { others });
    assert_eq!(pieces.get(), 1);
    assert!(store.get(owner.id, id).is_err() && path.exists());
    put_of(&store, &owner, generators(3), true).unwrap();
    assert_eq!(store.check_again(&owner, id, || true), ObjectCheck::Intact);
    drop(store);
    let store = open(1 << 20, 9, folder.path());
    assert!(store.get(owner.id, id).is_ok());
}
