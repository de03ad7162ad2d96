//! Cancellation and deadlines of jobs, and whether they yield.

use std::{sync::Arc, time::Instant};

use crate::{
    error::{Error, Result},
    sync::atomic::{AtomicBool, Ordering},
};

/// Decides at each check of a job whether it may go on.
pub type CancellationGate = Arc<dyn Fn() -> bool + Send + Sync>;

/// Cancellation and deadline of one job, and whether it yields to others. Clones share the same
/// state.
#[derive(Clone, Default)]
pub struct JobControl {
    cancelled: Arc<AtomicBool>,
    yields: Arc<AtomicBool>,
    deadline: Option<Instant>,
    gate: Option<CancellationGate>,
    /// Stops this one when it stops.
    parent: Option<Arc<JobControl>>,
}

impl JobControl {
    /// A control with an optional deadline.
    pub fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// The same control, which is cancelled at the first check that `gate` refuses.
    pub(super) fn behind(&self, gate: &CancellationGate) -> Self {
        Self { gate: Some(gate.clone()), ..self.clone() }
    }

    /// A control that stops with this one, and can be cancelled without it.
    pub fn child(&self) -> Self {
        Self { parent: Some(self.clone().into()), ..Self::new(self.deadline) }
    }

    /// Asks the job to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Says whether short jobs of others should soon get the devices that this job uses.
    pub fn set_yielding(&self, yields: bool) {
        self.yields.store(yields, Ordering::Relaxed);
    }

    /// Whether the job should occupy a device for a few milliseconds at a time only, although that
    /// makes it slower.
    pub fn yields(&self) -> bool {
        self.yields.load(Ordering::Relaxed)
            || self.parent.as_ref().is_some_and(|parent| parent.yields())
    }

    /// The deadline, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// `Ok` if the job should go on. Cheap: engines call it between pieces of work.
    ///
    /// Errors: `Cancelled`, `Deadline`.
    pub fn check(&self) -> Result<()> {
        if let Some(parent) = &self.parent {
            parent.check()?;
        }
        if self.gate.as_ref().is_some_and(|is_open| !is_open()) {
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
