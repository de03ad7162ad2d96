//! A device under test.

use bytemuck::Pod;

use crate::device::{DeviceArena, DeviceFault, DeviceLease, StagingRing, Stream};

/// Elements per operation: two warps, so that divergence within a warp is covered.
pub(super) const COUNT: usize = 64;

/// The memory of one device and a stream on it.
pub(super) struct SelfTestDevice<'a> {
    pub arena: &'a DeviceArena,
    pub ring: &'a StagingRing,
    pub stream: Stream,
}

impl SelfTestDevice<'_> {
    pub fn upload<T: Pod>(&self, values: &[T]) -> Result<DeviceLease, DeviceFault> {
        let bytes = bytemuck::cast_slice(values);
        let lease = self.lease(bytes.len())?;
        self.ring.upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
    }

    pub fn lease(&self, bytes: usize) -> Result<DeviceLease, DeviceFault> {
        self.arena.lease(&self.stream, bytes as u64)
    }

    /// Fails with `WrongResult`, which names the `operation`, unless `found` holds `expected`.
    pub fn compare(
        &self,
        found: &DeviceLease,
        expected: &[u8],
        operation: &str,
    ) -> Result<(), DeviceFault> {
        let mut rest = expected;
        self.ring.download(&self.stream, found.all(), |bytes| {
            let (now, later) = rest.split_at(bytes.len());
            rest = later;
            if bytes == now { Ok(()) } else { Err(DeviceFault::WrongResult(operation.to_owned())) }
        })
    }
}
