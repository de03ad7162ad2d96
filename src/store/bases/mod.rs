//! The store of bases: public points that are checked once, named by content, shared by all jobs.
//! Tenants that put equal points share the host's memory of them, but each sees its own object
//! only.

mod data_dir;
mod object;

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    task::spawn_blocking,
};

use self::data_dir::DataDir;
pub use self::object::{StoreCharge, StoredBases, unix_time_s};
use crate::{
    buffer::Quota,
    curve::{Group, points::Bases},
    error::{Error, FieldProblem, Limit, Result},
    tenant::{Tenant, TenantId, TenantName, Tenants},
    wire::decode::{ObjectId, PayloadId},
};

/// Minimum charge for an object: the cost of its entry, label and mapping, which dominates for
/// small objects.
const OBJECT_BYTES_MIN: u64 = 4096;

pub struct BasesStore {
    /// Each change is one insertion or removal, so a panic leaves a consistent state.
    state: Mutex<BasesIndex>,
    /// A tenant's lock is held while one of its files and the entry in the index change, so that
    /// they agree for every caller. Tenants do not wait for each other's disk: calls that wait for
    /// the lock hold no thread.
    files: Mutex<HashMap<TenantId, Arc<AsyncMutex<()>>>>,
    byte_limit: Arc<Quota>,
    object_limit: Arc<Quota>,
    disk: Option<DataDir>,
}

/// An object of a tenant. Objects with the same content are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct BasesKey {
    id: ObjectId,
    tenant: TenantId,
}

#[derive(Default)]
struct BasesIndex {
    objects: BTreeMap<BasesKey, Arc<StoredBases>>,
    /// Payloads received, so that a tenant's second `Put` of the same one needs no upload.
    by_payload: HashMap<(TenantId, PayloadId), ObjectId>,
    /// Files that are not in `objects`.
    unloaded: BTreeMap<BasesKey, UnloadedFile>,
}

/// A file that is not loaded.
struct UnloadedFile {
    tenant: TenantName,
    state: UnloadedState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnloadedState {
    /// Will be loaded.
    Waiting,
    /// Damaged, above a limit, or removed but perhaps not for good. It can be released.
    Skipped,
}

impl BasesIndex {
    /// Inserts a tenant's bases, unless it has persisted ones with the same id. Returns those that
    /// are stored now.
    fn insert(&mut self, tenant: TenantId, bases: StoredBases) -> Arc<StoredBases> {
        let key = BasesKey { id: bases.id, tenant };
        if let Some(payload) = bases.payload {
            self.by_payload.insert((tenant, payload), bases.id);
        }
        if bases.persisted {
            self.unloaded.remove(&key);
        }
        let bases = match self.of_other_tenant(key) {
            Some(equal) => bases.sharing(&equal.points),
            None => bases,
        };
        match self.objects.entry(key) {
            Entry::Occupied(held) if held.get().persisted || !bases.persisted => held.get().clone(),
            entry => entry.insert_entry(Arc::new(bases)).get().clone(),
        }
    }

    fn is_known(&self, key: BasesKey) -> bool {
        self.objects.contains_key(&key) || self.unloaded.contains_key(&key)
    }

    /// Notes that a file has gone, but may be back after a crash: the next `Put` writes it again,
    /// and the next release makes sure that it stays removed.
    fn forget_removed(&mut self, key: BasesKey, tenant: &TenantName) {
        let _removed = self.remove(key);
        let file = UnloadedFile { tenant: tenant.clone(), state: UnloadedState::Skipped };
        self.unloaded.insert(key, file);
    }

    fn is_waiting(&self, key: BasesKey) -> bool {
        self.unloaded.get(&key).is_some_and(|file| file.state == UnloadedState::Waiting)
    }

    /// Bases with the same content that another tenant has.
    fn of_other_tenant(&self, key: BasesKey) -> Option<Arc<StoredBases>> {
        let [first, last] = [0, u32::MAX].map(|id| BasesKey { tenant: TenantId(id), ..key });
        let mut equal = self.objects.range(first..=last);
        equal.find(|(other, _)| **other != key).map(|(_, bases)| bases.clone())
    }

    fn remove(&mut self, key: BasesKey) -> Option<Arc<StoredBases>> {
        let is_other = |&(tenant, _): &(TenantId, PayloadId)| tenant != key.tenant;
        self.by_payload.retain(|payload, object| is_other(payload) || *object != key.id);
        self.objects.remove(&key)
    }
}

impl BasesStore {
    /// Opens a store of at most `bytes_max` in `objects_max` objects. [`Self::load`] loads the
    /// files in `data_dir`.
    pub fn open(
        bytes_max: u64,
        objects_max: u64,
        data_dir: Option<&Path>,
        tenants: &Tenants,
    ) -> Result<Self> {
        let disk = data_dir.map(DataDir::open).transpose()?;
        let mut index = BasesIndex::default();
        if let Some(disk) = &disk {
            for name in disk.tenants() {
                let tenant = tenants.owner(&name).id;
                for path in disk.files(&name) {
                    let Some(id) = DataDir::id(&path) else {
                        tracing::warn!(file = ?path.file_name(), "the name of a file is no id");
                        continue;
                    };
                    let waiting =
                        UnloadedFile { tenant: name.clone(), state: UnloadedState::Waiting };
                    index.unloaded.insert(BasesKey { id, tenant }, waiting);
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
            state.unloaded.iter().map(|(key, file)| (*key, file.tenant.clone())).collect()
        };
        for (key, name) in waiting {
            if must_stop() {
                return;
            }
            if !self.state.lock().is_waiting(key) {
                // Released, or put again meanwhile.
                continue;
            }
            let tenant = tenants.owner(&name);
            let reserve = |group, count| self.reserve(&tenant, group, count);
            match disk.load(&name, key.id, reserve) {
                Ok(bases) => {
                    let mut state = self.state.lock();
                    if state.is_waiting(key) {
                        let _stored = state.insert(key.tenant, bases);
                    }
                }
                Err(error) => {
                    let file = hex::encode(key.id.0);
                    tracing::warn!(file, tenant = %name, %error, "skipped a file of stored bases");
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

    /// Charges the limits of the store and of the tenant for an object of `count` points. Each
    /// tenant is charged for all of them, whether it shares their memory or not.
    ///
    /// Errors: `Exhausted`; `Invalid` if the number of bytes overflows.
    pub fn reserve(&self, tenant: &Tenant, group: Group, count: u64) -> Result<StoreCharge> {
        let bytes = count.checked_mul(group.affine_bytes() as u64);
        let bytes = bytes.ok_or(Error::field("count", FieldProblem::TooLarge { max: u64::MAX }))?;
        let bytes = bytes.max(OBJECT_BYTES_MIN);
        let (of_store, object) = (self.byte_limit.acquire(bytes)?, self.object_limit.acquire(1)?);
        Ok(StoreCharge { _permits: [of_store, object, tenant.store_bytes.acquire(bytes)?] })
    }

    /// Stores a tenant's bases; if `persist`, writes them to disk first. If the tenant has them
    /// already, returns the stored ones, unless they must still be written to disk. `charge` is
    /// held as long as the points are in use.
    ///
    /// Errors: `NoDataDir`; `Exhausted` if the disk is full; `DiskFailed`.
    pub async fn insert(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        bases: StoredBases,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredBases>> {
        let files = if persist { Some(self.lock_files(tenant.id).await) } else { None };
        let (store, tenant) = (self.clone(), tenant.clone());
        let inserted = spawn_blocking(move || {
            // Here, because the thread goes on if the caller has gone.
            let _files = files;
            store.insert_now(&tenant, bases, charge, persist)
        });
        inserted.await.map_err(|_| Error::Internal("storing bases panicked".into()))?
    }

    /// Blocks; the caller holds the lock of the tenant's files if `persist`.
    fn insert_now(
        &self,
        tenant: &Tenant,
        bases: StoredBases,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredBases>> {
        let held = self.get(tenant.id, bases.id).ok();
        if let Some(held) = held.filter(|held| held.persisted || !persist) {
            if let Some(payload) = bases.payload {
                self.state.lock().by_payload.insert((tenant.id, payload), held.id);
            }
            return Ok(held);
        }
        let bases = match (persist, &self.disk) {
            (true, Some(disk)) => disk.write(&tenant.name, bases)?,
            (true, None) => return Err(Error::NoDataDir),
            (false, _) => bases,
        };
        Ok(self.state.lock().insert(tenant.id, bases.with_charge(charge)))
    }

    /// Errors: `NotFound`; `Loading` if they may be in a file that is not loaded yet.
    pub fn get(&self, tenant: TenantId, id: ObjectId) -> Result<Arc<StoredBases>> {
        let (state, key) = (self.state.lock(), BasesKey { id, tenant });
        let missing = || if state.is_waiting(key) { Error::Loading } else { Error::NotFound };
        state.objects.get(&key).cloned().ok_or_else(missing)
    }

    pub fn by_payload(&self, tenant: TenantId, payload: &PayloadId) -> Result<Arc<StoredBases>> {
        let state = self.state.lock();
        let id = *state.by_payload.get(&(tenant, *payload)).ok_or(Error::NotFound)?;
        state.objects.get(&BasesKey { id, tenant }).cloned().ok_or(Error::NotFound)
    }

    /// `length` points of the bases named `id` from `offset` on; `None` means all of them.
    ///
    /// Errors: those of [`Self::get`]; `Mismatch` if they are not of `group`; `Invalid` if out of
    /// range.
    pub fn points(
        &self,
        tenant: TenantId,
        id: ObjectId,
        group: Group,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bases> {
        let bases = self.get(tenant, id)?;
        let held = bases.points.group();
        if held != group {
            let (held, needed) = (format!("bases of {held}"), format!("bases of {group}"));
            return Err(Error::Mismatch { held, needed });
        }
        let too_large =
            |field, max: usize| Error::field(field, FieldProblem::TooLarge { max: max as u64 });
        let count = bases.points.len();
        let rest = count.checked_sub(offset);
        let rest = rest.ok_or_else(|| too_large("spec.bases.stored.offset", count))?;
        let points = bases.points.slice(offset, length.unwrap_or(rest));
        points.ok_or_else(|| too_large("spec.bases.stored.length", rest))
    }

    /// All bases of a tenant, oldest first.
    pub fn list(&self, tenant: TenantId) -> Vec<Arc<StoredBases>> {
        let state = self.state.lock();
        let own = state.objects.iter().filter(|(key, _)| key.tenant == tenant);
        let mut all: Vec<_> = own.map(|(_, bases)| bases.clone()).collect();
        drop(state);
        all.sort_by_key(|bases| (bases.created_s, bases.id));
        all
    }

    /// Removes a tenant's bases, on disk too. Running jobs keep the points that they use, and other
    /// tenants theirs.
    ///
    /// Errors: `NotFound`; `DiskFailed` if the file cannot be removed for good: the caller can try
    /// again.
    pub async fn release(self: &Arc<Self>, tenant: &Arc<Tenant>, id: ObjectId) -> Result<()> {
        // Before the lock, so that calls with wrong ids do not wait for the disk.
        if !self.state.lock().is_known(BasesKey { id, tenant: tenant.id }) {
            return Err(Error::NotFound);
        }
        let files = self.lock_files(tenant.id).await;
        let (store, tenant) = (self.clone(), tenant.clone());
        let released = spawn_blocking(move || {
            // Here, because the thread goes on if the caller has gone.
            let _files = files;
            store.release_now(&tenant, id)
        });
        released.await.map_err(|_| Error::Internal("release panicked".into()))?
    }

    /// Blocks; the caller holds the lock of the tenant's files.
    fn release_now(&self, tenant: &Tenant, id: ObjectId) -> Result<()> {
        let key = BasesKey { id, tenant: tenant.id };
        let is_on_disk = {
            let state = self.state.lock();
            if !state.is_known(key) {
                return Err(Error::NotFound);
            }
            let held = state.objects.get(&key);
            state.unloaded.contains_key(&key) || held.is_some_and(|bases| bases.persisted)
        };
        // First, so that the caller can try again if it fails.
        if let (Some(disk), true) = (&self.disk, is_on_disk)
            && let Err(error) = disk.remove(&tenant.name, id)
        {
            if !disk.has_file(&tenant.name, id) {
                self.state.lock().forget_removed(key, &tenant.name);
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
        Ok(())
    }

    async fn lock_files(&self, tenant: TenantId) -> OwnedMutexGuard<()> {
        let files = self.files.lock().entry(tenant).or_default().clone();
        files.lock_owned().await
    }
}

#[cfg(test)]
mod tests;
