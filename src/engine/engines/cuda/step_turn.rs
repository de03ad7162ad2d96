//! The right to launch a piece of a job's work, for which a job that yields waits.

use super::{
    long_work::{LongPiece, LongWait},
    serving_gpu::ServingGpu,
};
use crate::{
    device::{Event, JobStream},
    engines::JobControl,
    error::Result,
};

/// The right to launch a step: of a job that yields, as a piece of long work.
pub struct StepTurn(Option<LongPiece>);

impl StepTurn {
    /// The right to launch the next piece of a job's work on a stream. A job that yields waits up
    /// to about a millisecond for long work on the GPU to end; `None` if it has not. Its piece then
    /// runs after the passes of MSMs launched so far.
    ///
    /// Errors: those of the job's control; `DeviceLost` if the GPU hangs.
    pub(super) fn begin(
        gpu: &ServingGpu,
        stream: &JobStream,
        control: &JobControl,
        wait: &mut LongWait,
    ) -> Result<Option<Self>> {
        control.check()?;
        if !control.yields() {
            *wait = LongWait::default();
            return Ok(Some(Self(None)));
        }
        let work = gpu.msm.long_work();
        let timeout = gpu.gpu.context().timeout();
        if !wait.wait(work.pending_end()?, timeout)? {
            return Ok(None);
        }
        let Some(piece) = work.begin()? else { return Ok(None) };
        for end in gpu.msm.ends_of_passes()? {
            stream.wait_event(&end)?;
        }
        Ok(Some(Self(Some(piece))))
    }

    /// Notes where the step, which has been launched, ends.
    pub fn end_at(self, end: &Event) {
        if let Some(piece) = self.0 {
            piece.end_at(end.clone());
        }
    }
}
