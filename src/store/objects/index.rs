//! Which objects each tenant has, in memory and in files that are not loaded.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
};

use super::object::{ObjectKind, StoredObject};
use crate::{
    tenant::{TenantId, TenantName},
    wire::decode::{ObjectId, PayloadId},
};

/// An object of a tenant. Objects with the same content are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub id: ObjectId,
    pub tenant: TenantId,
}

#[derive(Default)]
pub struct ObjectIndex {
    pub objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    /// Payloads received, so that a tenant's second `Put` of the same one needs no upload.
    pub by_payload: HashMap<(TenantId, PayloadId), ObjectId>,
    /// Files that are not in `objects`.
    pub unloaded: BTreeMap<ObjectKey, UnloadedFile>,
}

/// A file that is not loaded.
pub struct UnloadedFile {
    pub tenant: TenantName,
    pub kind: ObjectKind,
    pub state: UnloadedState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UnloadedState {
    /// Will be loaded.
    Waiting,
    /// Damaged, above a limit, or removed, but it may be back after a crash. It can be released.
    Skipped,
}

impl ObjectIndex {
    /// The object, if all bytes that were read could be read. A damaged one is kept until it is put
    /// again or released.
    pub fn intact(&self, key: ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(&key).filter(|object| object.data.is_intact())
    }

    /// Inserts a tenant's object, unless it has an intact one with the same id that is persisted,
    /// or the new one is not. Returns the one that is stored now.
    pub fn insert(
        &mut self,
        tenant: TenantId,
        name: &TenantName,
        object: StoredObject,
    ) -> Arc<StoredObject> {
        let key = ObjectKey { id: object.id, tenant };
        let damaged = self.objects.get(&key).filter(|held| !held.data.is_intact());
        if damaged.is_some_and(|held| held.persisted) && !object.persisted {
            // Its file is still there, and a release must remove it.
            self.forget_loaded(key, name, object.data.kind());
        }
        if let Some(payload) = object.payload {
            self.by_payload.insert((tenant, payload), object.id);
        }
        if object.persisted {
            self.unloaded.remove(&key);
        }
        let object = match self.in_memory_of_other_tenant(key) {
            // A file that cannot be read must harm its own tenant only.
            Some(equal) if !object.persisted => object.sharing(&equal),
            _ => object,
        };
        match self.objects.entry(key) {
            Entry::Occupied(held)
                if held.get().data.is_intact() && (held.get().persisted || !object.persisted) =>
            {
                held.get().clone()
            }
            entry => entry.insert_entry(Arc::new(object)).get().clone(),
        }
    }

    /// The kind of a known object.
    pub fn kind(&self, key: ObjectKey) -> Option<ObjectKind> {
        let stored = self.objects.get(&key).map(|object| object.data.kind());
        stored.or_else(|| self.unloaded.get(&key).map(|file| file.kind))
    }

    /// Notes a file whose object is not used any more: the next `Put` with `persist` writes it
    /// again, and the next release makes sure that it is removed.
    pub fn forget_loaded(&mut self, key: ObjectKey, tenant: &TenantName, kind: ObjectKind) {
        let _removed = self.remove(key);
        let file = UnloadedFile { tenant: tenant.clone(), kind, state: UnloadedState::Skipped };
        self.unloaded.insert(key, file);
    }

    pub fn is_waiting(&self, key: ObjectKey) -> bool {
        self.unloaded.get(&key).is_some_and(|file| file.state == UnloadedState::Waiting)
    }

    /// An object with the same content that another tenant has.
    fn in_memory_of_other_tenant(&self, key: ObjectKey) -> Option<Arc<StoredObject>> {
        let [first, last] = [0, u32::MAX].map(|id| ObjectKey { tenant: TenantId(id), ..key });
        let mut equal = self.objects.range(first..=last);
        let is_other = |other: &ObjectKey, object: &StoredObject| {
            *other != key && !object.persisted && object.data.is_intact()
        };
        equal.find(|(other, object)| is_other(other, object)).map(|(_, object)| object.clone())
    }

    pub fn remove(&mut self, key: ObjectKey) -> Option<Arc<StoredObject>> {
        let is_other = |&(tenant, _): &(TenantId, PayloadId)| tenant != key.tenant;
        self.by_payload.retain(|payload, object| is_other(payload) || *object != key.id);
        self.objects.remove(&key)
    }
}
