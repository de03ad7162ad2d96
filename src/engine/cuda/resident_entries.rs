//! The bases on a device, least recently used first.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tracing::debug;

use super::resident_bases::ResidentBases;
use crate::{
    curve::points::{Bases, WeakOwner},
    device::DeviceLease,
};

/// Uses of an object whose times are remembered.
const RECENT_USES: usize = 8;

/// An object on the device.
#[derive(Clone)]
pub struct ResidentEntry {
    owner: WeakOwner,
    pub resident: Arc<ResidentBases>,
    /// The number of jobs that used it.
    pub uses: u64,
    /// When its last jobs used it, in uses of all objects: use number i is at i % `RECENT_USES`.
    recent_uses: [u64; RECENT_USES],
}

impl ResidentEntry {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.resident) == 1
    }

    fn count_use(&mut self, now: u64) {
        self.recent_uses[self.uses as usize % RECENT_USES] = now;
        self.uses += 1;
    }

    fn last_use(&self) -> u64 {
        self.recent_uses[self.uses.wrapping_sub(1) as usize % RECENT_USES]
    }

    /// Whether no job has used it during the last uses of `other`, nor uses it now.
    fn is_less_used_than(&self, other: &Self) -> bool {
        let oldest = other.recent_uses[other.uses as usize % RECENT_USES];
        self.is_idle() && other.uses >= RECENT_USES as u64 && self.last_use() < oldest
    }
}

/// The bases on a device. Objects are told apart by their owners.
#[derive(Default)]
pub struct ResidentEntries {
    /// Least recently used first.
    entries: Mutex<Vec<ResidentEntry>>,
    /// Uses of all objects so far.
    uses: AtomicU64,
}

impl ResidentEntries {
    pub fn contains(&self, bases: &Bases) -> bool {
        self.entries.lock().iter().any(|entry| entry.owner.owns(bases))
    }

    /// Finds an object and makes it the most recently used.
    pub fn find(&self, whole: &Bases) -> Option<ResidentEntry> {
        self.find_with(whole, |_| {})
    }

    /// Like [`Self::find`], and counts a use.
    pub fn find_and_count(&self, whole: &Bases) -> Option<ResidentEntry> {
        self.find_with(whole, |entry| entry.count_use(self.next_use()))
    }

    fn find_with(
        &self,
        whole: &Bases,
        visit: impl FnOnce(&mut ResidentEntry),
    ) -> Option<ResidentEntry> {
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.owner.is_alive());
        let index = entries.iter().position(|entry| entry.owner.owns(whole))?;
        let mut entry = entries.remove(index);
        visit(&mut entry);
        entries.push(entry.clone());
        Some(entry)
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds an object with its first use.
    pub fn add(&self, whole: &Bases, resident: Arc<ResidentBases>) {
        let owner = WeakOwner::of(whole);
        let mut entry = ResidentEntry { owner, resident, uses: 0, recent_uses: Default::default() };
        entry.count_use(self.next_use());
        self.entries.lock().push(entry);
    }

    /// Replaces what the device holds of an object, which becomes the most recently used.
    pub fn replace(&self, whole: &Bases, found: ResidentEntry, resident: Arc<ResidentBases>) {
        let mut entries = self.entries.lock();
        entries.retain(|entry| !entry.owner.owns(whole));
        entries.push(ResidentEntry { resident, ..found });
    }

    pub fn remove(&self, resident: &Arc<ResidentBases>) {
        self.entries.lock().retain(|entry| !Arc::ptr_eq(&entry.resident, resident));
    }

    /// Evicts the least recently used bases that no job uses. False if there are none.
    pub fn evict_idle(&self) -> bool {
        self.evict_first(ResidentEntry::is_idle)
    }

    /// Evicts the least recently used bases that were not used during the last uses of `other`.
    /// False if there are none.
    pub fn evict_less_used_than(&self, other: &ResidentEntry) -> bool {
        self.evict_first(|entry| entry.is_less_used_than(other))
    }

    fn evict_first(&self, may_evict: impl Fn(&ResidentEntry) -> bool) -> bool {
        let mut entries = self.entries.lock();
        let Some(index) = entries.iter().position(may_evict) else { return false };
        let evicted = entries.remove(index).resident;
        debug!(bytes = evicted.lease().bytes(), "bases evicted from the device");
        true
    }

    /// Calls `work` with the memory of all bases that no job uses.
    pub fn with_idle<T>(&self, work: impl FnOnce(Vec<&DeviceLease>) -> T) -> T {
        self.with_leases(ResidentEntry::is_idle, work)
    }

    /// Calls `work` with the memory that [`Self::evict_less_used_than`] would free.
    pub fn with_less_used_than<T>(
        &self,
        other: &ResidentEntry,
        work: impl FnOnce(Vec<&DeviceLease>) -> T,
    ) -> T {
        self.with_leases(|entry| entry.is_less_used_than(other), work)
    }

    fn with_leases<T>(
        &self,
        is_included: impl Fn(&ResidentEntry) -> bool,
        work: impl FnOnce(Vec<&DeviceLease>) -> T,
    ) -> T {
        let entries = self.entries.lock();
        let included = entries.iter().filter(|entry| is_included(entry));
        work(included.map(|entry| entry.resident.lease()).collect())
    }
}
