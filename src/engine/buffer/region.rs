//! Payloads that lie in memory shared with a client.

use std::{any::Any, sync::Arc};

use super::{QuotaPermit, Wiper};
use crate::region::SharedMemory;

/// Memory shared with a client, which devices may access directly.
pub struct SharedRegion {
    /// `None` during drop.
    parts: Option<RegionParts>,
    wiper: Wiper,
}

struct RegionParts {
    /// Lets devices access the memory until it is dropped.
    _pinning: Option<Box<dyn Any + Send + Sync>>,
    memory: Arc<SharedMemory>,
    /// Returned after the memory is wiped.
    _permits: Vec<QuotaPermit>,
}

impl SharedRegion {
    /// `wiper` drops the memory, which wipes it.
    pub fn new(
        memory: Arc<SharedMemory>,
        pinning: Option<Box<dyn Any + Send + Sync>>,
        permits: Vec<QuotaPermit>,
        wiper: Wiper,
    ) -> Self {
        Self { parts: Some(RegionParts { _pinning: pinning, memory, _permits: permits }), wiper }
    }

    pub fn memory(&self) -> &SharedMemory {
        &self.parts.as_ref().expect("taken by drop only").memory
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        self.wiper.drop_later(self.parts.take());
    }
}

/// A part of a region.
#[derive(Clone)]
pub struct RegionSlice {
    region: Arc<SharedRegion>,
    start: u64,
    len: u64,
}

impl RegionSlice {
    /// `None` if the region is shorter.
    pub fn new(region: Arc<SharedRegion>, start: u64, len: u64) -> Option<Self> {
        let is_inside = start.checked_add(len)? <= region.memory().size() as u64;
        is_inside.then_some(Self { region, start, len })
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    /// Whether both are the same bytes, or have none in common.
    pub fn is_same_or_apart(&self, other: &Self) -> bool {
        let is_same = self.start == other.start && self.len == other.len;
        is_same || !self.overlaps(other)
    }

    pub(super) fn memory(&self) -> &SharedMemory {
        self.region.memory()
    }

    /// The first byte's number in the memory.
    pub(super) fn start(&self) -> u64 {
        self.start
    }
}
