//! The store of bases and matrices: public objects that are checked once, named by content, shared
//! by all jobs. Tenants that put equal points share the host's memory of them unless one of them
//! has persisted them, but each sees its own object only. Each tenant has its own copy of a matrix.

mod data_dir;
mod file_header;
mod index;
mod object;
mod recheck;
mod uses;

use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    task::spawn_blocking,
};

pub use self::{
    data_dir::DataDirError,
    object::{ObjectData, ObjectKind, StoreCharge, StoredObject, StoredPoints, unix_time_s},
    recheck::ObjectCheck,
};
use self::{
    data_dir::{DataDir, ObjectFile},
    index::{ObjectIndex, ObjectKey, UnloadedFile, UnloadedState},
};
use crate::{
    buffer::Quota,
    error::{Error, Limit, Result},
    tenant::{Tenant, TenantId, Tenants},
    wire::decode::{ObjectId, PayloadId},
};

/// Minimum charge for an object: the cost of its entry, label and mapping, which dominates for
/// small objects.
const OBJECT_BYTES_MIN: u64 = 4096;

pub struct ObjectStore {
    /// Each change is one insertion or removal, so a panic leaves a consistent state.
    state: Mutex<ObjectIndex>,
    /// A tenant's lock is held while one of its files and the entry in the index change, so that
    /// they agree for every caller. Tenants do not wait for each other's disk: calls that wait for
    /// the lock hold no thread.
    files: Mutex<HashMap<TenantId, Arc<AsyncMutex<()>>>>,
    byte_limit: Arc<Quota>,
    object_limit: Arc<Quota>,
    disk: Option<DataDir>,
}

impl ObjectStore {
    /// Opens a store of at most `bytes_max` in `objects_max` objects. [`Self::load`] loads the
    /// files in `data_dir`.
    ///
    /// Errors: `data_dir` cannot be used.
    pub fn open(
        bytes_max: u64,
        objects_max: u64,
        data_dir: Option<&Path>,
        tenants: &Tenants,
    ) -> Result<Self, DataDirError> {
        let disk = data_dir.map(DataDir::open).transpose()?;
        let mut index = ObjectIndex::default();
        if let Some(disk) = &disk {
            for name in disk.tenants()? {
                let tenant = tenants.owner(&name).id;
                for ObjectFile { id, kind } in disk.files(&name)? {
                    let tenant_name = name.clone();
                    let state = UnloadedState::Waiting;
                    let waiting = UnloadedFile { tenant: tenant_name, kind, state };
                    // Of two kinds, one only can have this id: the other file is damaged.
                    index.unloaded.entry(ObjectKey { id, tenant }).or_insert(waiting);
                }
            }
        }
        Ok(Self {
            state: Mutex::new(index),
            files: Mutex::default(),
            byte_limit: Quota::new(Limit::Store, bytes_max),
            object_limit: Quota::new(Limit::Objects, objects_max),
            disk,
        })
    }

    /// Loads the files of the data directory one after the other, which blocks. Each object is
    /// served once its file is checked. A file that is damaged or exceeds a limit is logged and
    /// skipped. Returns early when `must_stop`.
    pub fn load(&self, tenants: &Tenants, must_stop: impl Fn() -> bool) {
        let Some(disk) = &self.disk else { return };
        let waiting: Vec<_> = {
            let state = self.state.lock();
            let files = state.unloaded.iter();
            files.map(|(key, file)| (*key, file.tenant.clone(), file.kind)).collect()
        };
        for (key, name, kind) in waiting {
            if must_stop() {
                return;
            }
            if !self.state.lock().is_waiting(key) {
                // Released, or put again meanwhile.
                continue;
            }
            let tenant = tenants.owner(&name);
            let reserve = |bytes| self.reserve(&tenant, bytes);
            match disk.load(&name, ObjectFile { id: key.id, kind }, reserve) {
                Ok(object) => {
                    let mut state = self.state.lock();
                    if state.is_waiting(key) {
                        let inserted = state.insert(key.tenant, &name, object);
                        drop(state);
                        inserted.free_unused();
                    }
                }
                Err(error) => {
                    let file = hex::encode(key.id.0);
                    let what = kind.name();
                    tracing::warn!(file, what, tenant = %name, %error, "skipped a stored file");
                    if let Some(file) = self.state.lock().unloaded.get_mut(&key) {
                        file.state = UnloadedState::Skipped;
                    }
                }
            }
        }
    }

    /// Whether files of the data directory wait to be loaded.
    pub fn is_loading(&self) -> bool {
        self.state.lock().unloaded.values().any(|file| file.state == UnloadedState::Waiting)
    }

    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    pub fn budget(&self) -> &Arc<Quota> {
        &self.byte_limit
    }

    /// Includes released objects that jobs still use.
    pub fn slots(&self) -> &Arc<Quota> {
        &self.object_limit
    }

    /// Like [`Self::reserve`], but leaves room to other tenants if the server has any: see
    /// [`Quota::check_lasting_share`].
    ///
    /// Errors: `Exhausted`.
    pub fn reserve_share(
        &self,
        tenant: &Tenant,
        bytes: u64,
        has_others: bool,
    ) -> Result<StoreCharge> {
        let charge = self.reserve(tenant, bytes)?;
        self.byte_limit.check_lasting_share(tenant.store_bytes.used(), bytes, has_others)?;
        self.object_limit.check_lasting_share(tenant.objects.used(), 1, has_others)?;
        Ok(charge)
    }

    /// Charges the limits of the store and of the tenant for an object of `bytes` bytes. Each
    /// tenant is charged for all of them, whether it shares their memory or not.
    ///
    /// Errors: `Exhausted`.
    pub fn reserve(&self, tenant: &Tenant, bytes: u64) -> Result<StoreCharge> {
        let bytes = bytes.max(OBJECT_BYTES_MIN);
        let _permits = [
            self.byte_limit.acquire(bytes)?,
            self.object_limit.acquire(1)?,
            tenant.store_bytes.acquire(bytes)?,
            tenant.objects.acquire(1)?,
        ];
        Ok(StoreCharge { _permits })
    }

    /// Stores a tenant's object; if `persist`, writes it to disk first. If the tenant has it
    /// already, returns the stored one, unless a file must still be written. `charge` is held
    /// as long as the data are in use.
    ///
    /// Errors: `NoDataDir`; `Exhausted` if the disk is full; `DiskFailed`.
    pub async fn insert(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        object: StoredObject,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredObject>> {
        let files = if persist { Some(self.lock_files(tenant.id).await) } else { None };
        let store = self.clone();
        let tenant = tenant.clone();
        let inserted = spawn_blocking(move || {
            // Here, because the thread goes on if the caller has gone.
            let _files = files;
            store.insert_now(&tenant, object, charge, persist)
        });
        inserted.await.map_err(|_| Error::internal("storing an object panicked"))?
    }

    /// Blocks; the caller holds the lock of the tenant's files if `persist`.
    fn insert_now(
        &self,
        tenant: &Tenant,
        object: StoredObject,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredObject>> {
        let held = self.get(tenant.id, object.id).ok();
        if let Some(held) = held.filter(|held| !object.improves(held, persist)) {
            if let Some(payload) = object.payload {
                let key = ObjectKey { id: held.id, tenant: tenant.id };
                self.state.lock().note_payload(key, payload);
            }
            return Ok(held);
        }
        let object = match (persist, &self.disk) {
            (true, Some(disk)) => disk.write(&tenant.name, object)?,
            (true, None) => return Err(Error::NoDataDir),
            (false, _) => object,
        };
        let object = object.with_charge(charge);
        let inserted = self.state.lock().insert(tenant.id, &tenant.name, object);
        Ok(inserted.free_unused())
    }

    /// Errors: `NotFound`, also for an object that its disk does not read any more; `Loading` if it
    /// may be in a file that is not loaded yet.
    pub fn get(&self, tenant: TenantId, id: ObjectId) -> Result<Arc<StoredObject>> {
        let state = self.state.lock();
        let key = ObjectKey { id, tenant };
        let missing = || if state.is_waiting(key) { Error::Loading } else { Error::NOT_FOUND };
        state.intact(key).cloned().ok_or_else(missing)
    }

    pub fn by_payload(&self, tenant: TenantId, payload: &PayloadId) -> Result<Arc<StoredObject>> {
        let state = self.state.lock();
        let id = state.by_payload(tenant, payload).ok_or(Error::NOT_FOUND)?;
        state.intact(ObjectKey { id, tenant }).cloned().ok_or(Error::NOT_FOUND)
    }

    /// All objects of a tenant, oldest first.
    pub fn list(&self, tenant: TenantId) -> Vec<Arc<StoredObject>> {
        let mut all: Vec<_> = self.state.lock().intact_of(tenant).cloned().collect();
        all.sort_by_key(|object| (object.created_s, object.id));
        all
    }

    /// Removes a tenant's object, on disk too, and returns its kind. Running jobs keep the data
    /// that they use, and other tenants theirs.
    ///
    /// Errors: `NotFound`; `DiskFailed` if the file cannot be removed for good: the caller can try
    /// again.
    pub async fn release(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: ObjectId,
    ) -> Result<ObjectKind> {
        // Before the lock, so that calls with wrong ids do not wait for the disk.
        if self.state.lock().kind(ObjectKey { id, tenant: tenant.id }).is_none() {
            return Err(Error::NOT_FOUND);
        }
        let files = self.lock_files(tenant.id).await;
        let store = self.clone();
        let tenant = tenant.clone();
        let released = spawn_blocking(move || {
            // Here, because the thread goes on if the caller has gone.
            let _files = files;
            store.release_now(&tenant, id)
        });
        released.await.map_err(|_| Error::internal("release panicked"))?
    }

    /// Blocks; the caller holds the lock of the tenant's files.
    fn release_now(&self, tenant: &Tenant, id: ObjectId) -> Result<ObjectKind> {
        let key = ObjectKey { id, tenant: tenant.id };
        let (kind, is_on_disk) = {
            let state = self.state.lock();
            let held = state.get(key);
            let is_persisted = held.is_some_and(|object| object.persisted);
            let is_on_disk = state.unloaded.contains_key(&key) || is_persisted;
            (state.kind(key).ok_or(Error::NOT_FOUND)?, is_on_disk)
        };
        // First, so that the caller can try again if it fails.
        if let (Some(disk), true) = (&self.disk, is_on_disk)
            && let Err(error) = disk.remove(&tenant.name, id, kind)
        {
            if disk.lacks_file(&tenant.name, id, kind) {
                let forgotten = self.state.lock().forget_loaded(key, &tenant.name, kind);
                if let Some(object) = forgotten {
                    object.free();
                }
            }
            return Err(error);
        }
        let removed = {
            let mut state = self.state.lock();
            state.unloaded.remove(&key);
            state.remove(key)
        };
        if let Some(removed) = removed {
            removed.free();
        }
        Ok(kind)
    }

    async fn lock_files(&self, tenant: TenantId) -> OwnedMutexGuard<()> {
        let files = self.files.lock().entry(tenant).or_default().clone();
        files.lock_owned().await
    }
}

#[cfg(test)]
mod tests;
