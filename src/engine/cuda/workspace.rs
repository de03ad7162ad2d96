//! The workspace of passes: device memory that is kept between them.

use parking_lot::Mutex;

use crate::device::{DeviceLease, DeviceSlice};

/// Names a workspace: passes that run at the same time use different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceId {
    Usual,
    /// Of passes that have priority.
    Priority,
}

impl WorkspaceId {
    pub const ALL: [Self; 2] = [Self::Usual, Self::Priority];
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

    /// Calls `visit` with the memory, unless a pass is being launched.
    pub fn with_idle<T>(&self, visit: impl FnOnce(Option<&DeviceLease>) -> T) -> T {
        let memory = self.0.try_lock();
        visit(memory.as_ref().and_then(|memory| memory.as_ref()))
    }
}
