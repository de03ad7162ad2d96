//! The store of bases: public points that are checked once, named by content, shared by all jobs.

mod data_dir;
mod object;

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

use self::data_dir::DataDir;
pub use self::object::{StoreCharge, StoredBases, unix_time_s};
use crate::{
    buffer::Quota,
    curve::{Group, points::Bases},
    error::{Error, FieldProblem, Limit, Result},
    wire::decode::{ObjectId, PayloadId},
};

/// Minimum charge for an object: the cost of its entry, label and mapping, which dominates for
/// small objects.
const OBJECT_BYTES_MIN: u64 = 4096;

pub struct BasesStore {
    /// Each change is one insertion or removal, so a panic leaves a consistent state.
    state: Mutex<BasesIndex>,
    /// Held while a file and its entry in the index change, so that they agree for every caller.
    files: Mutex<()>,
    byte_limit: Arc<Quota>,
    object_limit: Arc<Quota>,
    disk: Option<DataDir>,
}

#[derive(Default)]
struct BasesIndex {
    objects: HashMap<ObjectId, Arc<StoredBases>>,
    /// Payloads received, so that a second `Put` of the same one needs no upload.
    by_payload: HashMap<PayloadId, ObjectId>,
    /// Files that are not in `objects`.
    unloaded: HashMap<ObjectId, UnloadedFile>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnloadedFile {
    /// Will be loaded.
    Waiting,
    /// Damaged, or above a limit. It can be released.
    Skipped,
}

impl BasesIndex {
    /// Inserts bases, unless persisted ones with the same id are present. Returns those that are
    /// stored now.
    fn insert(&mut self, bases: Arc<StoredBases>) -> Arc<StoredBases> {
        if let Some(payload) = bases.payload {
            self.by_payload.insert(payload, bases.id);
        }
        if bases.persisted {
            self.unloaded.remove(&bases.id);
        }
        match self.objects.entry(bases.id) {
            Entry::Occupied(held) if held.get().persisted || !bases.persisted => held.get().clone(),
            entry => entry.insert_entry(bases).get().clone(),
        }
    }

    fn remove(&mut self, id: ObjectId) -> Option<Arc<StoredBases>> {
        self.by_payload.retain(|_, object| *object != id);
        self.objects.remove(&id)
    }
}

impl BasesStore {
    /// Opens a store of at most `bytes_max` in `objects_max` objects. [`Self::load`] loads the
    /// files in `data_dir`.
    pub fn open(bytes_max: u64, objects_max: u64, data_dir: Option<&Path>) -> Result<Self> {
        let disk = data_dir.map(DataDir::open).transpose()?;
        let mut index = BasesIndex::default();
        for path in disk.iter().flat_map(DataDir::files) {
            match DataDir::id(&path) {
                Some(id) => _ = index.unloaded.insert(id, UnloadedFile::Waiting),
                None => tracing::warn!(file = ?path.file_name(), "the name of a file is no id"),
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
    pub fn load(&self, must_stop: impl Fn() -> bool) {
        let Some(disk) = &self.disk else { return };
        let mut waiting: Vec<_> = self.state.lock().unloaded.keys().copied().collect();
        waiting.sort_unstable_by_key(|id| id.0);
        for id in waiting {
            if must_stop() {
                return;
            }
            let is_waiting =
                |state: &BasesIndex| state.unloaded.get(&id) == Some(&UnloadedFile::Waiting);
            if !is_waiting(&self.state.lock()) {
                // Released, or put again meanwhile.
                continue;
            }
            match disk.load(id, |group, count| self.reserve(group, count)) {
                Ok(bases) => {
                    let mut state = self.state.lock();
                    if is_waiting(&state) {
                        let _stored = state.insert(Arc::new(bases));
                    }
                }
                Err(error) => {
                    let file = hex::encode(id.0);
                    tracing::warn!(file, %error, "skipped a file of stored bases");
                    if let Some(file) = self.state.lock().unloaded.get_mut(&id) {
                        *file = UnloadedFile::Skipped;
                    }
                }
            }
        }
    }

    /// Whether files of the data directory wait to be loaded.
    pub fn is_loading(&self) -> bool {
        self.state.lock().unloaded.values().any(|file| *file == UnloadedFile::Waiting)
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

    /// Charges the limits for an object of `count` points.
    ///
    /// Errors: `Exhausted`; `Invalid` if the number of bytes overflows.
    pub fn reserve(&self, group: Group, count: u64) -> Result<StoreCharge> {
        let bytes = count.checked_mul(group.affine_bytes() as u64);
        let bytes = bytes.ok_or(Error::field("count", FieldProblem::TooLarge { max: u64::MAX }))?;
        let bytes = self.byte_limit.acquire(bytes.max(OBJECT_BYTES_MIN))?;
        Ok(StoreCharge { _permits: [bytes, self.object_limit.acquire(1)?] })
    }

    /// Stores bases; if `persist`, writes them to disk first, which blocks. If the store has them
    /// already, returns the stored ones, unless they must still be written to disk. `charge` is
    /// held as long as the points are in use.
    ///
    /// Errors: `NoDataDir`; `Exhausted` if the disk is full; `Internal` if writing fails.
    pub fn insert(
        &self,
        bases: StoredBases,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredBases>> {
        let _files = persist.then(|| self.files.lock());
        if let Some(held) = self.get(bases.id).ok().filter(|held| held.persisted || !persist) {
            if let Some(payload) = bases.payload {
                self.state.lock().by_payload.insert(payload, held.id);
            }
            return Ok(held);
        }
        let bases = match (persist, &self.disk) {
            (true, Some(disk)) => disk.write(bases)?,
            (true, None) => return Err(Error::NoDataDir),
            (false, _) => bases,
        };
        Ok(self.state.lock().insert(Arc::new(bases.with_charge(charge))))
    }

    /// Errors: `NotFound`; `Loading` if they may be in a file that is not loaded yet.
    pub fn get(&self, id: ObjectId) -> Result<Arc<StoredBases>> {
        let state = self.state.lock();
        state.objects.get(&id).cloned().ok_or_else(|| match state.unloaded.get(&id) {
            Some(UnloadedFile::Waiting) => Error::Loading,
            Some(UnloadedFile::Skipped) | None => Error::NotFound,
        })
    }

    pub fn by_payload(&self, payload: &PayloadId) -> Result<Arc<StoredBases>> {
        let state = self.state.lock();
        let id = state.by_payload.get(payload).ok_or(Error::NotFound)?;
        state.objects.get(id).cloned().ok_or(Error::NotFound)
    }

    /// `length` points of the bases named `id` from `offset` on; `None` means all of them.
    ///
    /// Errors: those of [`Self::get`]; `Mismatch` if they are not of `group`; `Invalid` if out of
    /// range.
    pub fn points(
        &self,
        id: ObjectId,
        group: Group,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bases> {
        let bases = self.get(id)?;
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

    /// All bases, oldest first.
    pub fn list(&self) -> Vec<Arc<StoredBases>> {
        let mut all: Vec<_> = self.state.lock().objects.values().cloned().collect();
        all.sort_by_key(|bases| (bases.created_s, bases.id));
        all
    }

    /// Removes bases, on disk too, which blocks. Running jobs keep the points that they use.
    ///
    /// Errors: `NotFound`; `Internal` if the file cannot be removed.
    pub fn release(&self, id: ObjectId) -> Result<()> {
        let _files = self.disk.as_ref().map(|_| self.files.lock());
        let (removed, unloaded) = {
            let mut state = self.state.lock();
            (state.remove(id), state.unloaded.remove(&id))
        };
        if removed.is_none() && unloaded.is_none() {
            return Err(Error::NotFound);
        }
        let is_on_disk = unloaded.is_some() || removed.is_some_and(|bases| bases.persisted);
        match &self.disk {
            Some(disk) if is_on_disk => disk.remove(id),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
