//! Which bases a device holds, and requests to change that.

use serde::{Deserialize, Serialize};

use crate::curve::points::WeakOwner;

/// What a device holds of the bases of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceResidency {
    /// Device number in the driver's order.
    pub device: u32,
    /// Bytes of device memory, with tables; 0 if the device does not hold the bases.
    pub bytes: u64,
    /// The number of tables, of which the first is the bases themselves.
    pub tables: u32,
    /// Whether the bases are kept until they are unpinned.
    pub pinned: bool,
}

/// A device that can hold bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasesDevice {
    /// Device number in the driver's order.
    pub index: u32,
    /// Bytes of memory for bases and jobs.
    pub bytes: u64,
    /// False while the device's worker is being replaced.
    pub is_serving: bool,
}

/// A change of what a device holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResidencyChange {
    /// Uploads the bases, with the best tables that fit.
    Warm {
        /// The most bytes that bases and tables may take.
        bytes_max: u64,
    },
    /// Warms the bases, and keeps them and their tables as they are.
    Pin {
        /// The most bytes that bases and tables may take.
        bytes_max: u64,
    },
    /// Lets the bases be evicted for others.
    Unpin,
    /// Unpins the bases and frees their memory. Running jobs keep it until they end.
    Evict,
}

/// Bases of which a device holds something.
#[derive(Clone)]
pub struct ResidentObject {
    /// Recognises the bases.
    pub owner: WeakOwner,
    /// What the device holds.
    pub residency: DeviceResidency,
}

impl DeviceResidency {
    /// A device that does not hold the bases.
    pub fn none(device: u32) -> Self {
        Self { device, ..Self::default() }
    }

    /// Adds what the same device holds of other ranges of the same object.
    pub fn merge(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.tables = self.tables.max(other.tables);
        self.pinned |= other.pinned;
    }
}
