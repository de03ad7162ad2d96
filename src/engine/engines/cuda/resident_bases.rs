//! One object's bases on a device.

use std::{collections::HashMap, ops::Range};

use parking_lot::Mutex;

use super::fingerprint::of_host;
use crate::{
    device::DeviceLease,
    msm::{BasesLocation, Recoding},
};

/// More ranges of one object are forgotten and computed again.
const FINGERPRINTS_MAX: usize = 64;

/// The bases of an object, with tables of multiples once they are used again.
pub struct ResidentBases {
    lease: DeviceLease,
    location: BasesLocation,
    /// The windows of the tables; `None` if only the bases are resident.
    windows: Option<Recoding>,
    /// Fingerprints of ranges of the host's bases, in bytes.
    host_fingerprints: Mutex<HashMap<Range<usize>, u64>>,
}

impl ResidentBases {
    pub fn new(lease: DeviceLease, location: BasesLocation, windows: Option<Recoding>) -> Self {
        Self { lease, location, windows, host_fingerprints: Mutex::default() }
    }

    pub fn lease(&self) -> &DeviceLease {
        &self.lease
    }

    /// The location of the object's bases from number `first` on.
    pub fn points_from(&self, first: usize) -> BasesLocation {
        BasesLocation { first: self.location.first + first as u32, ..self.location }
    }

    /// The number of tables, of which the first is the bases themselves.
    pub fn tables(&self) -> u32 {
        self.windows.as_ref().map_or(1, Recoding::tables)
    }

    pub fn windows(&self) -> Option<&Recoding> {
        self.windows.as_ref()
    }

    /// The fingerprint of the host's bytes in this range of the object.
    pub fn host_fingerprint(&self, range: Range<usize>, bytes: &[u8]) -> u64 {
        let known = self.host_fingerprints.lock().get(&range).copied();
        known.unwrap_or_else(|| {
            let computed = of_host(bytes);
            let mut known = self.host_fingerprints.lock();
            if known.len() >= FINGERPRINTS_MAX {
                known.clear();
            }
            known.insert(range, computed);
            computed
        })
    }
}
