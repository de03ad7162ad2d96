//! The end of an MSM that yields: its last passes, with pauses in which other jobs may run.

use std::time::{Duration, Instant};

use super::{GpuMsmRun, not_prepared};
use crate::{engine::JobControl, error::Result};

/// A job that yields waits for the device for this long before others may run.
const YIELD_INTERVAL: Duration = Duration::from_millis(1);

impl GpuMsmRun {
    /// Launches the next pass, if it may, and waits for the device for `YIELD_INTERVAL` at most.
    /// Returns whether all passes have ended.
    pub(super) fn work_for_a_while(&mut self, control: &JobControl) -> Result<bool> {
        control.check()?;
        self.prepare(control)?;
        self.launch_due_passes(true)?;
        let state = self.device_state.as_mut().ok_or_else(not_prepared)?;
        let is_launched = state.passes.is_empty(&state.plan);
        let awaited = match is_launched {
            true => state.last_pass.clone(),
            false => self.gpu_msm.long_passes.last_end(),
        };
        let since = *state.awaited_since.get_or_insert_with(Instant::now);
        let is_reached = match awaited {
            // This wait fails if the device hangs.
            Some(end) if since.elapsed() > self.gpu_msm.gpu.context().timeout() => {
                end.synchronize()?;
                true
            }
            Some(end) => end.wait_at_most(YIELD_INTERVAL)?,
            None => true,
        };
        if is_reached {
            state.awaited_since = None;
            // At once, so that the device is not idle while other jobs get the thread.
            self.launch_due_passes(true)?;
        }
        Ok(is_launched && is_reached)
    }
}
