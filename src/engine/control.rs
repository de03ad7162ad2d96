//! How a job is told to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::error::{Error, Result};

/// Cancellation and deadline of one job. Clones share the same state.
#[derive(Debug, Clone, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Control {
    /// A control that stops at `deadline`, if there is one.
    pub fn new(deadline: Option<Instant>) -> Self {
        Self { cancelled: Arc::default(), deadline }
    }

    /// Asks the job to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// When the caller stops waiting.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// `Ok` while the job should go on. Cheap: engines call it between pieces of work.
    ///
    /// Errors: `Cancelled`, `Deadline`.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Error::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Deadline),
            _ => Ok(()),
        }
    }
}
