//! The store of bases: public points that are checked once, named by content, shared by all jobs.

mod data_dir;
mod object;

use std::{collections::HashMap, path::Path, sync::Arc};

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
    byte_limit: Arc<Quota>,
    object_limit: Arc<Quota>,
    disk: Option<DataDir>,
}

#[derive(Default)]
struct BasesIndex {
    objects: HashMap<ObjectId, Arc<StoredBases>>,
    /// Payloads received, so that a second `Put` of the same one needs no upload.
    by_payload: HashMap<PayloadId, ObjectId>,
}

impl BasesStore {
    /// Opens a store of at most `bytes_max` in `objects_max` objects and loads the files in
    /// `data_dir`. A file that is damaged or exceeds a limit is logged and skipped.
    pub fn open(bytes_max: u64, objects_max: u64, data_dir: Option<&Path>) -> Result<Self> {
        let store = Self {
            state: Mutex::default(),
            byte_limit: Quota::new(Limit::Store, bytes_max),
            object_limit: Quota::new(Limit::Objects, objects_max),
            disk: data_dir.map(DataDir::open).transpose()?,
        };
        for path in store.disk.iter().flat_map(DataDir::files) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            match DataDir::load(&path, |group, count| store.reserve(group, count)) {
                Ok(bases) => drop(store.add(bases)),
                Err(error) => tracing::warn!(file = name, %error, "skipped a file of stored bases"),
            }
        }
        Ok(store)
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
    /// Errors: `NoDataDir`; `Internal` if writing fails.
    pub fn insert(
        &self,
        bases: StoredBases,
        charge: StoreCharge,
        persist: bool,
    ) -> Result<Arc<StoredBases>> {
        if let Some(held) = self.get(bases.id).ok().filter(|held| held.persisted || !persist) {
            self.remember_payload(bases.payload, held.id);
            return Ok(held);
        }
        let bases = match (persist, &self.disk) {
            (true, Some(disk)) => disk.write(bases)?,
            (true, None) => return Err(Error::NoDataDir),
            (false, _) => bases,
        };
        Ok(self.add(bases.with_charge(charge)))
    }

    fn add(&self, bases: StoredBases) -> Arc<StoredBases> {
        let bases = Arc::new(bases);
        self.remember_payload(bases.payload, bases.id);
        self.state.lock().objects.insert(bases.id, bases.clone());
        bases
    }

    fn remember_payload(&self, payload: Option<PayloadId>, id: ObjectId) {
        if let Some(payload) = payload {
            self.state.lock().by_payload.insert(payload, id);
        }
    }

    pub fn get(&self, id: ObjectId) -> Result<Arc<StoredBases>> {
        self.state.lock().objects.get(&id).cloned().ok_or(Error::NotFound)
    }

    pub fn by_payload(&self, payload: &PayloadId) -> Result<Arc<StoredBases>> {
        let state = self.state.lock();
        let id = state.by_payload.get(payload).ok_or(Error::NotFound)?;
        state.objects.get(id).cloned().ok_or(Error::NotFound)
    }

    /// `length` points of the bases named `id` from `offset` on; `None` means all of them.
    ///
    /// Errors: `NotFound`; `Mismatch` if they are not of `group`; `Invalid` if out of range.
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
    pub fn release(&self, id: ObjectId) -> Result<()> {
        let bases = {
            let mut state = self.state.lock();
            let bases = state.objects.remove(&id).ok_or(Error::NotFound)?;
            state.by_payload.retain(|_, object| *object != id);
            bases
        };
        match &self.disk {
            Some(disk) if bases.persisted => disk.remove(id),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
