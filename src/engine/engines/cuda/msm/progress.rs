//! Launches the passes of an MSM, and waits for them, with pauses in which other jobs may run if it
//! yields.

use std::{ops::Range, time::Instant};

use super::{
    GpuMsmRun,
    device_state::UndecodedScalars,
    not_prepared,
    pass_schedule::{PendingPasses, is_long},
};
use crate::{engines::JobControl, error::Result};

impl GpuMsmRun {
    /// Notes that the copies of scalars have been started, and launches the passes that are due.
    /// `undecoded` are scalars that the passes must decode.
    pub(super) fn receive(
        &mut self,
        scalars: Range<usize>,
        undecoded: Option<UndecodedScalars>,
        yields: bool,
    ) -> Result<()> {
        if let (Some(state), Some(undecoded)) = (&mut self.device_state, undecoded) {
            state.record_upload(undecoded);
        }
        self.received.insert(scalars.start as u64..scalars.end as u64);
        self.launch_due_passes(yields)
    }

    /// Launches passes that are due: short ones, and few at a time, if the job yields.
    pub(super) fn launch_due_passes(&mut self, yields: bool) -> Result<()> {
        let (n, gpu_msm) = (self.bases.len(), &self.gpu_msm);
        let Some(state) = &mut self.device_state else { return Ok(()) };
        loop {
            let mut piece = None;
            if yields && is_long(&state.plan) {
                piece = gpu_msm.long_work.begin()?;
                if piece.is_none() {
                    return Ok(());
                }
            }
            let (last, previous) = (&state.last_pass, &state.previous_pass);
            let pending = || PendingPasses::of(last.as_ref(), previous.as_ref());
            let plan = &state.plan;
            let now = Instant::now();
            let next = state.passes.next(plan, &self.received, now, pending, yields);
            let Some(pass) = next else { return Ok(()) };
            gpu_msm.launch(state, &pass, n as u32, piece)?;
        }
    }

    /// Launches the next pass, if it may, and waits for the device for about a millisecond at most.
    /// Returns whether all passes have ended.
    pub(super) fn work_for_a_while(&mut self, control: &JobControl) -> Result<bool> {
        control.check()?;
        self.prepare(control)?;
        self.launch_due_passes(true)?;
        let state = self.device_state.as_mut().ok_or_else(not_prepared)?;
        let is_launched = state.passes.is_empty(&state.plan);
        let awaited = match is_launched {
            true => state.last_pass.clone(),
            false => self.gpu_msm.long_work.pending_end()?,
        };
        let is_reached = state.wait.wait(awaited, self.gpu_msm.gpu.context().timeout())?;
        if is_reached {
            // At once, so that the device is not idle while other jobs get the thread.
            self.launch_due_passes(true)?;
        }
        Ok(is_launched && is_reached)
    }

    /// Launches all passes. Waits for them if they are long, so that the job can be cancelled.
    /// Returns true.
    pub(super) fn work_to_the_end(&mut self, control: &JobControl) -> Result<bool> {
        control.check()?;
        self.prepare(control)?;
        self.launch_due_passes(false)?;
        let timeout = self.gpu_msm.gpu.context().timeout();
        let state = self.device_state.as_mut().ok_or_else(not_prepared)?;
        if is_long(&state.plan) {
            while !state.wait.wait(state.last_pass.clone(), timeout)? {
                control.check()?;
            }
        }
        Ok(true)
    }
}
