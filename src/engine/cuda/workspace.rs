//! The workspace of passes: device memory that is kept between them.

use parking_lot::{Mutex, MutexGuard};

use crate::device::{DeviceLease, DeviceSlice};

/// Names a stream of passes, and their workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassPriority {
    Normal,
    High,
}

impl PassPriority {
    /// The number of priorities.
    pub const COUNT: usize = 2;
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
