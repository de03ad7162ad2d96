//! Bases: public points, checked once, named by their content, shared by every job.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use super::disk::Disk;
use crate::{
    buffer::{Charge, Counter},
    curve::{
        Group,
        points::{Bases, PointSlice},
    },
    error::{Error, Limit, Problem, Result},
    wire::decode::{ObjectId, PayloadId},
};

/// Bases as the store holds them.
pub struct StoredBases {
    /// Their content's hash.
    pub id: ObjectId,
    /// The points, checked.
    pub points: Bases,
    /// How many of them are infinity.
    pub infinities: u64,
    /// The payload they came as, where it is known.
    pub payload: Option<PayloadId>,
    /// What people call them.
    pub label: String,
    /// When the store took them in, in seconds of Unix time.
    pub created_s: i64,
    /// Kept in the data directory.
    pub persisted: bool,
}

/// What an object takes of the store.
#[derive(Debug)]
pub struct Room {
    _bytes: Charge,
    _object: Charge,
}

/// Points and the room they take: given back when nobody uses the points any more, which may be
/// long after their release.
struct Housed<A> {
    points: PointSlice<A>,
    _room: Room,
}

impl<A> AsRef<[A]> for Housed<A> {
    fn as_ref(&self) -> &[A] {
        &self.points
    }
}

fn housed(points: Bases, room: Room) -> Bases {
    match points {
        Bases::G1(points) => Bases::G1(PointSlice::new(Arc::new(Housed { points, _room: room }))),
        Bases::G2(points) => Bases::G2(PointSlice::new(Arc::new(Housed { points, _room: room }))),
    }
}

/// Least charge for an object: what an entry, its label and its mapping take beside the points, so
/// that many small objects are counted too.
const OBJECT_BYTES_MIN: u64 = 4096;

impl StoredBases {
    /// Bytes in memory, or mapped.
    pub fn bytes(&self) -> u64 {
        self.points.len() as u64 * self.points.group().affine_bytes() as u64
    }
}

/// All bases.
pub struct BasesStore {
    state: Mutex<State>,
    budget: Arc<Counter>,
    slots: Arc<Counter>,
    disk: Option<Disk>,
}

#[derive(Default)]
struct State {
    objects: HashMap<ObjectId, Arc<StoredBases>>,
    /// Payloads seen, so that a second `Put` of the same one needs no upload.
    by_payload: HashMap<PayloadId, ObjectId>,
}

impl BasesStore {
    /// A store of at most `bytes_max` in `objects_max` objects, with what `data_dir` keeps from
    /// earlier.
    ///
    /// Errors: `Internal` where the directory cannot be used. A damaged file in it, and one that
    /// finds no room, is logged and left alone.
    pub fn open(bytes_max: u64, objects_max: u64, data_dir: Option<&Path>) -> Result<Self> {
        let budget = Counter::new(Limit::Store, bytes_max);
        let slots = Counter::new(Limit::Objects, objects_max);
        let disk = data_dir.map(Disk::open).transpose()?;
        let store = Self { state: Mutex::default(), budget, slots, disk };
        for path in store.disk.iter().flat_map(Disk::files) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            match Disk::load(&path, |group, count| store.room(group, count)) {
                Ok((bases, room)) => drop(store.hold(bases, room)),
                Err(error) => tracing::warn!(file = name, %error, "stored bases left out"),
            }
        }
        Ok(store)
    }

    /// True where bases can be kept on disk.
    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// The bytes that bases take.
    pub fn budget(&self) -> &Arc<Counter> {
        &self.budget
    }

    /// How many objects are held, released ones that are in use included.
    pub fn slots(&self) -> &Arc<Counter> {
        &self.slots
    }

    /// Takes what `count` points need, until they are dropped.
    ///
    /// Errors: `Exhausted`; `Invalid` where their bytes cannot be counted.
    pub fn room(&self, group: Group, count: u64) -> Result<Room> {
        let bytes = count.checked_mul(group.affine_bytes() as u64);
        let bytes = bytes.ok_or(Error::field("count", Problem::TooLarge { max: u64::MAX }))?;
        let bytes = self.budget.take(bytes.max(OBJECT_BYTES_MIN))?;
        Ok(Room { _bytes: bytes, _object: self.slots.take(1)? })
    }

    /// Takes in new bases, on disk first where they are to be kept. Blocks on the disk. Where they
    /// are there already, those stay; they are put on disk now if they were not. `room` is held for
    /// as long as anybody uses the points.
    ///
    /// Errors: `NoDataDir`; `Internal` where the disk refuses.
    pub fn insert(
        &self,
        bases: StoredBases,
        room: Room,
        persist: bool,
    ) -> Result<Arc<StoredBases>> {
        if let Some(held) = self.get(bases.id).ok().filter(|held| held.persisted || !persist) {
            self.remember_payload(bases.payload, held.id);
            return Ok(held);
        }
        let bases = match (persist, &self.disk) {
            (true, Some(disk)) => disk.keep(bases)?,
            (true, None) => return Err(Error::NoDataDir),
            (false, _) => bases,
        };
        Ok(self.hold(bases, room))
    }

    fn hold(&self, bases: StoredBases, room: Room) -> Arc<StoredBases> {
        let bases = Arc::new(StoredBases { points: housed(bases.points, room), ..bases });
        self.remember_payload(bases.payload, bases.id);
        self.state().objects.insert(bases.id, bases.clone());
        bases
    }

    fn remember_payload(&self, payload: Option<PayloadId>, id: ObjectId) {
        if let Some(payload) = payload {
            self.state().by_payload.insert(payload, id);
        }
    }

    /// Bases by id.
    ///
    /// Errors: `NotFound`.
    pub fn get(&self, id: ObjectId) -> Result<Arc<StoredBases>> {
        self.state().objects.get(&id).cloned().ok_or(Error::NotFound)
    }

    /// Bases by a payload that was put before.
    ///
    /// Errors: `NotFound`.
    pub fn by_payload(&self, payload: &PayloadId) -> Result<Arc<StoredBases>> {
        let state = self.state();
        let id = state.by_payload.get(payload).ok_or(Error::NotFound)?;
        state.objects.get(id).cloned().ok_or(Error::NotFound)
    }

    /// Part of some bases, of a group that must be theirs.
    ///
    /// Errors: `NotFound`; `Mismatch`; `Invalid` where the bases are fewer.
    pub fn points(
        &self,
        id: ObjectId,
        group: Group,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bases> {
        use Problem::TooLarge;
        let bases = self.get(id)?;
        let held = bases.points.group();
        if held != group {
            let (held, needed) = (format!("bases of {held}"), format!("bases of {group}"));
            return Err(Error::Mismatch { held, needed });
        }
        let count = bases.points.len();
        let Some(rest) = count.checked_sub(offset) else {
            return Err(Error::field("spec.bases.stored.offset", TooLarge { max: count as u64 }));
        };
        bases
            .points
            .slice(offset, length.unwrap_or(rest))
            .ok_or(Error::field("spec.bases.stored.length", TooLarge { max: rest as u64 }))
    }

    /// All bases, oldest first.
    pub fn list(&self) -> Vec<Arc<StoredBases>> {
        let mut all: Vec<_> = self.state().objects.values().cloned().collect();
        all.sort_by_key(|bases| (bases.created_s, bases.id));
        all
    }

    /// Forgets bases, on disk too. Blocks on the disk. Running jobs keep what they use.
    ///
    /// Errors: `NotFound`; `Internal` where the disk refuses.
    pub fn release(&self, id: ObjectId) -> Result<()> {
        let bases = {
            let mut state = self.state();
            let bases = state.objects.remove(&id).ok_or(Error::NotFound)?;
            state.by_payload.retain(|_, object| *object != id);
            bases
        };
        match &self.disk {
            Some(disk) if bases.persisted => disk.forget(id),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Now, in seconds of Unix time.
pub fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests;
