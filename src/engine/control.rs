//! Cancellation and deadlines of jobs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::error::{Error, Result};

/// Cancellation and deadline of one job. Clones share the same state.
#[derive(Debug, Clone, Default)]
pub struct JobControl {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
    /// Checks left before the control cancels itself; `None` if it never does.
    checks_left: Option<Arc<AtomicU64>>,
}

impl JobControl {
    /// A control with an optional deadline.
    pub fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// A control that passes `checks` checks and then cancels itself, so that tests can stop a job
    /// at each of its checks in turn.
    pub fn cancelled_after(checks: u64) -> Self {
        Self { checks_left: Some(Arc::new(checks.into())), ..Self::default() }
    }

    /// Asks the job to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// The deadline, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// `Ok` if the job should go on. Cheap: engines call it between pieces of work.
    ///
    /// Errors: `Cancelled`, `Deadline`.
    pub fn check(&self) -> Result<()> {
        if let Some(left) = &self.checks_left
            && left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_err()
        {
            self.cancel();
        }
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Error::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline),
            _ => Ok(()),
        }
    }
}
