//! The bases on a device, least recently used first.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::debug;

use super::resident_bases::ResidentBases;
use crate::{
    curve::points::{Bases, WeakOwner},
    device::DeviceLease,
    engines::{DeviceResidency, ResidentObject},
};

/// An object on the device.
#[derive(Clone)]
pub struct ResidentEntry {
    owner: WeakOwner,
    pub resident: Arc<ResidentBases>,
    /// The number of jobs that used it.
    pub uses: u64,
    /// Kept, with the tables that it has, until it is unpinned or dropped.
    pub is_pinned: bool,
}

impl ResidentEntry {
    fn is_idle(&self) -> bool {
        !self.is_kept() && Arc::strong_count(&self.resident) == 1
    }

    pub fn residency(&self, device: u32) -> DeviceResidency {
        let bytes = self.resident.lease().bytes();
        let tables = self.resident.tables();
        DeviceResidency { device, bytes, tables, pinned: self.is_pinned }
    }

    /// A pin ends with its object.
    fn is_kept(&self) -> bool {
        self.is_pinned && self.owner.is_alive()
    }
}

/// The bases on a device, least recently used first. Objects are told apart by their owners.
#[derive(Default)]
pub struct ResidentEntries(Mutex<Vec<ResidentEntry>>);

impl ResidentEntries {
    pub fn contains(&self, bases: &Bases) -> bool {
        self.0.lock().iter().any(|entry| entry.owner.owns(bases))
    }

    /// Finds an object, makes it the most recently used, and adds `uses` to its uses.
    pub fn find(&self, whole: &Bases, uses: u64) -> Option<ResidentEntry> {
        let mut entries = self.0.lock();
        entries.retain(|entry| entry.owner.is_alive());
        let index = entries.iter().position(|entry| entry.owner.owns(whole))?;
        let mut entry = entries.remove(index);
        entry.uses += uses;
        entries.push(entry.clone());
        Some(entry)
    }

    /// Makes `resident` what the device holds of an object, which becomes the most recently used.
    /// The uses and the pin of an object that was there are kept; the first use of a new object is
    /// counted.
    pub fn set(&self, whole: &Bases, resident: Arc<ResidentBases>) {
        let mut entries = self.0.lock();
        let known = entries.iter().position(|entry| entry.owner.owns(whole));
        let known = known.map(|index| entries.remove(index));
        let (uses, is_pinned) = known.map_or((1, false), |known| (known.uses, known.is_pinned));
        let owner = WeakOwner::of(whole);
        entries.push(ResidentEntry { owner, resident, uses, is_pinned });
    }

    /// What the device holds of an object, and whether it is pinned.
    pub fn get(&self, whole: &Bases) -> Option<ResidentEntry> {
        self.0.lock().iter().find(|entry| entry.owner.owns(whole)).cloned()
    }

    /// Pins or unpins an object, if the device holds it.
    pub fn set_pinned(&self, whole: &Bases, is_pinned: bool) {
        let mut entries = self.0.lock();
        let entry = entries.iter_mut().find(|entry| entry.owner.owns(whole));
        entry.into_iter().for_each(|entry| entry.is_pinned = is_pinned);
    }

    /// Evicts an object, also if it is pinned. Jobs that use it keep its memory until they end.
    pub fn evict(&self, whole: &Bases) {
        self.0.lock().retain(|entry| !entry.owner.owns(whole));
    }

    /// Bytes of all pinned objects but this one.
    pub fn pinned_bytes_besides(&self, whole: &Bases) -> u64 {
        let entries = self.0.lock();
        let others = entries.iter().filter(|entry| entry.is_kept() && !entry.owner.owns(whole));
        others.map(|entry| entry.resident.lease().bytes()).sum()
    }

    /// What device number `device`, to which this belongs, holds of each object.
    pub fn describe(&self, device: u32) -> Vec<ResidentObject> {
        let entries = self.0.lock();
        let alive = entries.iter().filter(|entry| entry.owner.is_alive());
        let object = |entry: &ResidentEntry| ResidentObject {
            owner: entry.owner.clone(),
            residency: entry.residency(device),
        };
        alive.map(object).collect()
    }

    pub fn remove(&self, resident: &Arc<ResidentBases>) {
        self.0.lock().retain(|entry| !Arc::ptr_eq(&entry.resident, resident));
    }

    /// Evicts the least recently used bases that no job uses and that are not pinned. False if
    /// there are none.
    pub fn evict_idle(&self) -> bool {
        let mut entries = self.0.lock();
        let idle = entries.iter().position(ResidentEntry::is_idle);
        let Some(index) = idle else { return false };
        let evicted = entries.remove(index).resident;
        debug!(bytes = evicted.lease().bytes(), "bases evicted from the device");
        true
    }

    /// Calls `work` with the memory of all bases that can be evicted.
    pub fn with_idle<T>(&self, work: impl FnOnce(Vec<&DeviceLease>) -> T) -> T {
        let entries = self.0.lock();
        let idle = entries.iter().filter(|entry| entry.is_idle());
        work(idle.map(|entry| entry.resident.lease()).collect())
    }
}
