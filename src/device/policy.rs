//! How a device is used, apart from what operators set. Tests use other values than the default.

use std::sync::Arc;

/// Decides whether the arena gives the next lease.
pub type LeaseGate = Arc<dyn Fn() -> bool + Send + Sync>;

/// Limits of a device below its own. The default has none.
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
