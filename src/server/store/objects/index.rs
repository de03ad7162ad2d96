//! Which objects each tenant has, in memory and in files that are not loaded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    /// So that no call of a tenant takes time for the objects of others.
    of_tenant: HashMap<TenantId, TenantObjects>,
    /// Files that are not in `objects`.
    pub unloaded: BTreeMap<ObjectKey, UnloadedFile>,
}

/// A tenant's keys in [`ObjectIndex::objects`].
#[derive(Default)]
struct TenantObjects {
    ids: BTreeSet<ObjectId>,
    /// Payloads received, so that the second `Put` of the same one needs no upload.
    by_payload: HashMap<PayloadId, ObjectId>,
}

/// What an insertion has done.
pub struct InsertedObject {
    pub stored: Arc<StoredObject>,
    /// To be freed after the index is unlocked, because that may take seconds.
    unused: Vec<Arc<StoredObject>>,
}

/// Objects that were removed from the index because they are damaged.
pub struct ForgottenObjects {
    /// Other tenants whose objects are among them.
    pub others: Vec<TenantId>,
    /// To be freed after the index is unlocked.
    pub objects: Vec<Arc<StoredObject>>,
}

impl InsertedObject {
    pub fn free_unused(self) -> Arc<StoredObject> {
        self.unused.into_iter().for_each(StoredObject::free);
        self.stored
    }
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
    pub fn get(&self, key: ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(&key)
    }

    /// The object, if all bytes that were read could be read. A damaged one is kept until it is put
    /// again or released.
    pub fn intact(&self, key: ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(&key).filter(|object| object.data.is_intact())
    }

    /// The intact objects of a tenant, in the order of their ids.
    pub fn intact_of(&self, tenant: TenantId) -> impl Iterator<Item = &Arc<StoredObject>> {
        let ids = self.of_tenant.get(&tenant).into_iter().flat_map(|own| &own.ids);
        ids.filter_map(move |id| self.intact(ObjectKey { id: *id, tenant }))
    }

    pub fn by_payload(&self, tenant: TenantId, payload: &PayloadId) -> Option<ObjectId> {
        self.of_tenant.get(&tenant)?.by_payload.get(payload).copied()
    }

    pub fn note_payload(&mut self, key: ObjectKey, payload: PayloadId) {
        let own = self.of_tenant.entry(key.tenant).or_default();
        own.by_payload.insert(payload, key.id);
    }

    /// Inserts a tenant's object, unless it has an intact one with the same id that the new one
    /// does not improve.
    pub fn insert(
        &mut self,
        tenant: TenantId,
        name: &TenantName,
        object: StoredObject,
    ) -> InsertedObject {
        let key = ObjectKey { id: object.id, tenant };
        let mut unused = Vec::new();
        let damaged = self.objects.get(&key).filter(|held| !held.data.is_intact());
        if damaged.is_some_and(|held| held.persisted) && !object.persisted {
            // Its file is still there, and a release must remove it.
            unused.extend(self.forget_loaded(key, name, object.data.kind()));
        }
        if let Some(payload) = object.payload {
            self.note_payload(key, payload);
        }
        if object.persisted {
            self.unloaded.remove(&key);
        }
        let object = Arc::new(match self.in_memory_of_other_tenant(key) {
            // A file that cannot be read must harm its own tenant only.
            Some(equal) if !object.persisted => object.sharing(&equal),
            _ => object,
        });
        let stored = match self.intact(key) {
            Some(held) if !object.improves(held, object.persisted) => {
                unused.push(object);
                held.clone()
            }
            _ => {
                unused.extend(self.objects.insert(key, object.clone()));
                self.of_tenant.entry(tenant).or_default().ids.insert(key.id);
                object
            }
        };
        InsertedObject { stored, unused }
    }

    /// The kind of a known object.
    pub fn kind(&self, key: ObjectKey) -> Option<ObjectKind> {
        let stored = self.objects.get(&key).map(|object| object.data.kind());
        stored.or_else(|| self.unloaded.get(&key).map(|file| file.kind))
    }

    /// Notes a file whose object is not used any more: the next `Put` with `persist` writes it
    /// again, and the next release makes sure that it is removed. Returns the object.
    pub fn forget_loaded(
        &mut self,
        key: ObjectKey,
        tenant: &TenantName,
        kind: ObjectKind,
    ) -> Option<Arc<StoredObject>> {
        let file = UnloadedFile { tenant: tenant.clone(), kind, state: UnloadedState::Skipped };
        self.unloaded.insert(key, file);
        self.remove(key)
    }

    /// Forgets an object that is damaged, unless another one has taken its place, and those of
    /// other tenants that lie in the same memory.
    pub fn forget_damaged(
        &mut self,
        key: ObjectKey,
        tenant: &TenantName,
        damaged: &Arc<StoredObject>,
    ) -> ForgottenObjects {
        let place = damaged.data.as_bytes().as_ptr();
        let of_others = self.objects_with_content_of(key).filter(|(other, object)| {
            **other != key && !object.persisted && object.data.as_bytes().as_ptr() == place
        });
        let of_others: Vec<_> = of_others.map(|(other, _)| *other).collect();
        let is_held = self.objects.get(&key).is_some_and(|held| Arc::ptr_eq(held, damaged));
        let own = match is_held {
            true if damaged.persisted => self.forget_loaded(key, tenant, damaged.data.kind()),
            true => self.remove(key),
            false => None,
        };
        let others = of_others.iter().map(|other| other.tenant).collect();
        let objects = of_others.into_iter().filter_map(|other| self.remove(other)).chain(own);
        ForgottenObjects { others, objects: objects.collect() }
    }

    pub fn is_waiting(&self, key: ObjectKey) -> bool {
        self.unloaded.get(&key).is_some_and(|file| file.state == UnloadedState::Waiting)
    }

    /// An object with the same content that another tenant has.
    fn in_memory_of_other_tenant(&self, key: ObjectKey) -> Option<Arc<StoredObject>> {
        let mut equal = self.objects_with_content_of(key);
        let is_other = |other: &ObjectKey, object: &StoredObject| {
            *other != key && !object.persisted && object.data.is_intact()
        };
        equal.find(|(other, object)| is_other(other, object)).map(|(_, object)| object.clone())
    }

    /// The objects of all tenants with the same id.
    fn objects_with_content_of(
        &self,
        key: ObjectKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<StoredObject>)> {
        let [first, last] = [0, u32::MAX].map(|id| ObjectKey { tenant: TenantId(id), ..key });
        self.objects.range(first..=last)
    }

    pub fn remove(&mut self, key: ObjectKey) -> Option<Arc<StoredObject>> {
        if let Some(own) = self.of_tenant.get_mut(&key.tenant) {
            own.ids.remove(&key.id);
            own.by_payload.retain(|_, object| *object != key.id);
            if own.ids.is_empty() && own.by_payload.is_empty() {
                self.of_tenant.remove(&key.tenant);
            }
        }
        self.objects.remove(&key)
    }
}
