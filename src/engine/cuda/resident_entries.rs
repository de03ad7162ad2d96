//! The bases on a device, least recently used first.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::debug;

use super::resident_bases::ResidentBases;
use crate::{
    curve::points::{Bases, WeakOwner},
    device::DeviceLease,
};

/// An object on the device.
#[derive(Clone)]
pub struct ResidentEntry {
    owner: WeakOwner,
    pub resident: Arc<ResidentBases>,
    /// The number of jobs that used it.
    pub uses: u64,
}

impl ResidentEntry {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.resident) == 1
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
    /// The uses of an object that was there are kept; the first one of a new object is counted.
    pub fn set(&self, whole: &Bases, resident: Arc<ResidentBases>) {
        let mut entries = self.0.lock();
        let known = entries.iter().position(|entry| entry.owner.owns(whole));
        let uses = known.map_or(1, |index| entries.remove(index).uses);
        entries.push(ResidentEntry { owner: WeakOwner::of(whole), resident, uses });
    }

    pub fn remove(&self, resident: &Arc<ResidentBases>) {
        self.0.lock().retain(|entry| !Arc::ptr_eq(&entry.resident, resident));
    }

    /// Evicts the least recently used bases that no job uses. False if there are none.
    pub fn evict_idle(&self) -> bool {
        let mut entries = self.0.lock();
        let idle = entries.iter().position(ResidentEntry::is_idle);
        let Some(index) = idle else { return false };
        let evicted = entries.remove(index).resident;
        debug!(bytes = evicted.lease().bytes(), "bases evicted from the device");
        true
    }

    /// Calls `work` with the memory of all bases that no job uses.
    pub fn with_idle<T>(&self, work: impl FnOnce(Vec<&DeviceLease>) -> T) -> T {
        let entries = self.0.lock();
        let idle = entries.iter().filter(|entry| entry.is_idle());
        work(idle.map(|entry| entry.resident.lease()).collect())
    }
}
