//! Choice and use of devices.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::DeviceFault;

/// Called for every fault, on the thread that hit it; the fatal fault of a device is reported once.
pub type FaultHandler = Arc<dyn Fn(&DeviceFault) + Send + Sync>;

/// Decides whether the arena gives the next lease.
pub type LeaseGate = Arc<dyn Fn() -> bool + Send + Sync>;

/// Which driver and devices to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSelection {
    /// Path of the driver library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Device numbers in the driver's order; empty for all devices.
    pub devices: Vec<u32>,
}

/// Limits of a device below its own, which operators do not set; tests do. The default has none.
#[derive(Clone)]
pub struct DevicePolicy {
    /// Limits the shared memory of a block, in bytes, so that the plans of smaller devices run;
    /// `None` for the device's own limit.
    pub shared_bytes_max: Option<u32>,
    /// Leases that it refuses fail with `OutOfMemory`.
    pub lease_gate: LeaseGate,
}

impl Default for DevicePolicy {
    fn default() -> Self {
        Self { shared_bytes_max: None, lease_gate: Arc::new(|| true) }
    }
}

/// A [`memory_wait`](OpenOptions::memory_wait) for servers: the driver frees the memory of a killed
/// process a second or two after its end, and a server that starts at once keeps what it gets.
pub const SERVER_MEMORY_WAIT: Duration = Duration::from_secs(5);

/// How devices are used.
#[derive(Clone)]
pub struct OpenOptions {
    /// Percentage of the free device memory that the arena takes, 1 to 100.
    pub memory_percent: u64,
    /// How long to wait before that for memory that other processes hold.
    pub memory_wait: Duration,
    /// The wait ends once the arena has at least this size; `None` waits for three quarters of the
    /// device's memory.
    pub arena_bytes_min: Option<u64>,
    /// Longest wait for work on a device; a longer one is a `Hang` fault.
    pub timeout: Duration,
    /// Called for every fault.
    pub on_fault: FaultHandler,
    /// Limits below the device's own.
    pub policy: DevicePolicy,
}
