//! Payloads that lie in memory shared with a client.

use std::{any::Any, ops::Range, sync::Arc};

use super::QuotaPermit;
use crate::region::SharedMemory;

/// Memory shared with a client, which devices may access directly.
pub struct SharedRegion {
    memory: Arc<SharedMemory>,
    /// Lets devices access the memory until it is dropped.
    pinning: Option<Box<dyn Any + Send + Sync>>,
    /// Returned after the memory is wiped.
    _permit: QuotaPermit,
}

impl SharedRegion {
    pub fn new(
        memory: Arc<SharedMemory>,
        pinning: Option<Box<dyn Any + Send + Sync>>,
        permit: QuotaPermit,
    ) -> Self {
        Self { memory, pinning, _permit: permit }
    }

    pub fn memory(&self) -> &SharedMemory {
        &self.memory
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
        let is_inside = start.checked_add(len)? <= region.memory.len() as u64;
        is_inside.then_some(Self { region, start, len })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    pub(super) fn read(&self, start: u64, out: &mut [u8]) {
        self.region.memory.read((self.start + start) as usize, out);
    }

    pub(super) fn write(&self, start: u64, bytes: &[u8]) {
        self.region.memory.write((self.start + start) as usize, bytes);
    }

    /// Where devices read `range`; `None` if they cannot.
    pub(super) fn device_source(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.region.pinning.as_ref()?;
        let start = (self.start + range.start) as usize;
        Some(self.region.memory.device_source(start, (range.end - range.start) as usize))
    }

    /// Where devices write `range`; `None` if they cannot.
    pub(super) fn device_destination(&self, range: &Range<u64>) -> Option<&mut [u8]> {
        self.region.pinning.as_ref()?;
        let start = (self.start + range.start) as usize;
        Some(self.region.memory.device_destination(start, (range.end - range.start) as usize))
    }
}
