//! Limits that are counted: bytes, jobs, uploads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::error::{Error, Limit, Result};

/// When a full server is worth another try: about the time of a middling job.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// How much of something is taken, of how much there is.
#[derive(Debug)]
pub struct Counter {
    used: AtomicU64,
    max: u64,
    limit: Limit,
}

impl Counter {
    /// Nothing taken of `max`.
    pub fn new(limit: Limit, max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max, limit })
    }

    /// How much is taken at this moment.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// How much there is.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Takes `amount`, until the charge is dropped.
    ///
    /// Errors: `Exhausted`, without a time to retry where `amount` can never fit.
    pub fn take(self: &Arc<Self>, amount: u64) -> Result<Charge> {
        let fits = |used: u64| used.checked_add(amount).filter(|sum| *sum <= self.max);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(Charge { counter: self.clone(), amount }),
            Err(_) => {
                self.check_fits(amount)?;
                Err(Error::Exhausted { limit: self.limit, retry_after: Some(RETRY_AFTER) })
            }
        }
    }

    /// Refuses what could not be taken even where nothing else is.
    ///
    /// Errors: `Exhausted` without a time to retry.
    pub fn check_fits(&self, amount: u64) -> Result<()> {
        let never = Error::Exhausted { limit: self.limit, retry_after: None };
        if amount <= self.max { Ok(()) } else { Err(never) }
    }
}

/// Part of a [`Counter`]; dropping it gives it back.
#[derive(Debug)]
pub struct Charge {
    counter: Arc<Counter>,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.counter.used.fetch_sub(self.amount, Ordering::AcqRel);
    }
}
