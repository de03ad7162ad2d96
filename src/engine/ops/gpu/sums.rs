//! Sums that a GPU is computing.

use crate::{
    engines::{ComputedMsm, JobControl, MsmRun},
    error::{Error, Result},
    verify::RandomCombination,
};

/// Sums that a GPU is computing, and their check.
pub enum PendingSums {
    Running { sums: Box<dyn MsmRun>, check: Option<PendingCheck> },
    Done(ComputedMsm),
}

/// An MSM that the sums must agree with.
pub struct PendingCheck {
    pub factors: RandomCombination,
    /// The MSM of the combination of all rows.
    pub combined: Box<dyn MsmRun>,
}

impl PendingSums {
    /// Like [`MsmRun::is_almost_done`], also for the check.
    pub fn is_almost_done(&mut self, control: &JobControl) -> Result<bool> {
        let Self::Running { sums, check } = self else { return Ok(true) };
        if !sums.is_almost_done(control)? {
            return Ok(false);
        }
        check.as_mut().map_or(Ok(true), |check| check.combined.is_almost_done(control))
    }

    /// Waits for the sums.
    ///
    /// Errors: `Corrupt` if the check fails; `DeviceLost`.
    pub fn finish(self, control: &JobControl) -> Result<ComputedMsm> {
        let (sums, check) = match self {
            Self::Running { mut sums, check } => (sums.finish()?, check),
            Self::Done(sums) => (sums, None),
        };
        if let Some(PendingCheck { factors, mut combined }) = check {
            // Sums over wrong bases agree with each other.
            let is_right = combined.has_right_bases(control)?
                && factors.verifies(&sums.sums, &combined.finish()?.sums, control)?;
            if !is_right {
                combined.evict_bases();
                return Err(Error::Corrupt);
            }
        }
        Ok(sums)
    }
}
