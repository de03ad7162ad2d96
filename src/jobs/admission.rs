//! Admission: bytes and jobs in flight, whole and for each connection, decided before any payload.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::error::{Error, Limit, Result};

/// When a full server is worth another try: about the time of a middling job.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Two counters with limits: bytes and jobs.
#[derive(Debug)]
pub struct Budget {
    bytes: Counter,
    jobs: Counter,
}

#[derive(Debug)]
struct Counter {
    used: AtomicU64,
    max: u64,
    limit: Limit,
}

impl Budget {
    /// The whole server's budget.
    pub fn whole(bytes_max: u64, jobs_max: u64) -> Self {
        Self::new((bytes_max, Limit::BytesInFlight), (jobs_max, Limit::Jobs))
    }

    /// One connection's budget.
    pub fn connection(bytes_max: u64, jobs_max: u64) -> Self {
        Self::new((bytes_max, Limit::ConnectionBytes), (jobs_max, Limit::ConnectionJobs))
    }

    fn new(bytes: (u64, Limit), jobs: (u64, Limit)) -> Self {
        let counter = |(max, limit)| Counter { used: AtomicU64::new(0), max, limit };
        Self { bytes: counter(bytes), jobs: counter(jobs) }
    }

    /// Bytes taken at this moment.
    pub fn bytes(&self) -> u64 {
        self.bytes.used.load(Ordering::Relaxed)
    }

    /// Jobs accepted and not yet ended.
    pub fn jobs(&self) -> u64 {
        self.jobs.used.load(Ordering::Relaxed)
    }
}

impl Counter {
    fn take(&self, amount: u64) -> Result<()> {
        let fits = |used: u64| used.checked_add(amount).filter(|sum| *sum <= self.max);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Exhausted {
                limit: self.limit,
                retry_after: (amount <= self.max).then_some(RETRY_AFTER),
            }),
        }
    }

    fn give_back(&self, amount: u64) {
        self.used.fetch_sub(amount, Ordering::AcqRel);
    }
}

/// Hands out permits.
#[derive(Debug, Clone)]
pub struct Admission {
    whole: Arc<Budget>,
}

impl Admission {
    /// Admission by the whole server's budget; each call brings its connection's.
    pub fn new(whole: Arc<Budget>) -> Self {
        Self { whole }
    }

    /// The whole server's budget.
    pub fn whole(&self) -> &Budget {
        &self.whole
    }

    /// Takes `bytes` and `jobs` from both budgets, or nothing from either.
    ///
    /// Errors: `Exhausted`, without a time to retry where the limit itself is too small.
    pub fn admit(&self, connection: &Arc<Budget>, bytes: u64, jobs: u64) -> Result<Permit> {
        let mut permit = Permit { taken: Vec::with_capacity(4) };
        for budget in [connection, &self.whole] {
            permit.take(budget, |budget| &budget.bytes, bytes)?;
            permit.take(budget, |budget| &budget.jobs, jobs)?;
        }
        Ok(permit)
    }
}

/// Bytes and jobs taken from budgets; dropping it gives them back.
#[derive(Default)]
pub struct Permit {
    taken: Vec<(Arc<Budget>, fn(&Budget) -> &Counter, u64)>,
}

impl Permit {
    fn take(
        &mut self,
        budget: &Arc<Budget>,
        counter: fn(&Budget) -> &Counter,
        amount: u64,
    ) -> Result<()> {
        counter(budget).take(amount)?;
        self.taken.push((budget.clone(), counter, amount));
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for (budget, counter, amount) in self.taken.drain(..) {
            counter(&budget).give_back(amount);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amounts: Vec<u64> = self.taken.iter().map(|(_, _, amount)| *amount).collect();
        write!(f, "Permit({amounts:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exhausted(limit: Limit, again: bool) -> Error {
        Error::Exhausted { limit, retry_after: again.then_some(RETRY_AFTER) }
    }

    #[test]
    fn a_refusal_takes_nothing_and_a_drop_gives_all_back() {
        let admission = Admission::new(Arc::new(Budget::whole(100, 3)));
        let (one, two) = (Arc::new(Budget::connection(60, 2)), Arc::new(Budget::connection(60, 2)));
        let first = admission.admit(&one, 50, 1).unwrap();
        let refusals = [
            (&one, 20, 0, exhausted(Limit::ConnectionBytes, true)),
            (&one, 61, 0, exhausted(Limit::ConnectionBytes, false)),
            (&one, 0, 2, exhausted(Limit::ConnectionJobs, true)),
            (&two, 51, 0, exhausted(Limit::BytesInFlight, true)),
        ];
        for (connection, bytes, jobs, error) in refusals {
            assert_eq!(admission.admit(connection, bytes, jobs).unwrap_err(), error);
            assert_eq!((admission.whole().bytes(), admission.whole().jobs()), (50, 1));
            assert_eq!((two.bytes(), two.jobs()), (0, 0));
        }
        let second = admission.admit(&two, 50, 2).unwrap();
        drop((first, second));
        assert_eq!((admission.whole().bytes(), admission.whole().jobs()), (0, 0));
        assert_eq!((one.bytes(), one.jobs(), two.bytes(), two.jobs()), (0, 0, 0, 0));
    }
}
