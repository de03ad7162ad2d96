//! The workspace of passes: device memory that is kept between them.

use parking_lot::{Mutex, MutexGuard};

use crate::device::{DeviceLease, DeviceSlice};

/// Names a stream of passes, and their workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassStreamId(usize);

impl PassStreamId {
    /// The number of streams.
    pub const COUNT: usize = 4;
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2), Self(3)];
    /// For any MSM. The other streams have priority over this one.
    pub const NORMAL: Self = Self(0);
    /// The streams in the order in which a short MSM prefers them.
    pub const FOR_SHORT: [Self; Self::COUNT] = [Self(1), Self(2), Self(3), Self::NORMAL];
    /// The streams in the order in which a long MSM prefers them. It leaves two to short ones.
    pub const FOR_LONG: [Self; 2] = [Self::NORMAL, Self(1)];

    pub const fn index(self) -> usize {
        self.0
    }
}

/// Memory that grows with the largest pass. Not zeroed in between: no pass reads what it did not
/// write.
#[derive(Default)]
pub struct Workspace(Mutex<Option<DeviceLease>>);

impl Workspace {
    /// Calls `work` with at least `bytes`, which `lease` provides if there are fewer. No other pass
    /// uses the workspace meanwhile.
    pub fn with<T, E>(
        &self,
        bytes: u64,
        lease: impl FnOnce() -> Result<DeviceLease, E>,
        work: impl FnOnce(DeviceSlice<'_, u8>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut memory = self.0.lock();
        let held = match memory.take().filter(|held| held.bytes() >= bytes) {
            Some(held) => held,
            None => lease()?,
        };
        let done = work(held.all());
        *memory = Some(held);
        done
    }

    /// Frees the memory unless a pass is being launched. False if nothing is freed.
    pub fn free(&self) -> bool {
        self.0.try_lock().is_some_and(|mut memory| memory.take().is_some())
    }

    /// The memory; `None` while a pass is being launched.
    pub fn idle(&self) -> Option<MutexGuard<'_, Option<DeviceLease>>> {
        self.0.try_lock()
    }
}
