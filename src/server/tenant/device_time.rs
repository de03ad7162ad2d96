//! A budget of device time: a token bucket that holds what a tenant may use in a minute. Jobs take
//! their modelled time before they begin; imports of objects pay for the time that they have taken.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::error::{EngineError as Error, EngineResult as Result, Limit, TenantLimit};

const MINUTE: Duration = Duration::from_secs(60);

/// Refills evenly. A job may use more than is left if the bucket is full, so that long jobs of a
/// tenant with a small budget run at all; the tenant then waits until the debt is paid.
#[derive(Debug)]
pub struct DeviceTimeBudget(Mutex<DeviceTimeBucket>);

#[derive(Debug)]
struct DeviceTimeBucket {
    /// Seconds of device time a minute; `None` without a limit.
    per_minute: Option<f64>,
    /// Seconds that are left; negative if the last job used more.
    left: f64,
    refilled: Instant,
}

impl DeviceTimeBudget {
    pub fn new(per_minute: Option<f64>) -> Self {
        let left = per_minute.unwrap_or(0.0);
        let refilled = Instant::now();
        Self(Mutex::new(DeviceTimeBucket { per_minute, left, refilled }))
    }

    pub fn set_limit(&self, per_minute: Option<f64>) {
        let mut bucket = self.0.lock();
        bucket.refill(Instant::now());
        if bucket.per_minute.is_none() {
            bucket.left = per_minute.unwrap_or(0.0);
        }
        bucket.per_minute = per_minute;
    }

    /// Takes the modelled time of a job.
    ///
    /// Errors: `Exhausted`, with the time until there is enough.
    pub fn take(self: &Arc<Self>, modelled: Duration) -> Result<DeviceTimeCharge> {
        self.take_at(modelled, Instant::now())?;
        Ok(DeviceTimeCharge { budget: self.clone(), refund: modelled })
    }

    /// Charges time that has been used already. The tenant's next jobs wait until it is paid for.
    pub fn charge(&self, used: Duration) {
        let mut bucket = self.0.lock();
        bucket.refill(Instant::now());
        bucket.left -= used.as_secs_f64();
    }

    fn take_at(&self, modelled: Duration, now: Instant) -> Result<()> {
        let mut bucket = self.0.lock();
        bucket.refill(now);
        let Some(per_minute) = bucket.per_minute else { return Ok(()) };
        let seconds = modelled.as_secs_f64();
        let missing = seconds.min(per_minute) - bucket.left;
        if missing > 0.0 {
            // The budget of a file is at least a millisecond a minute.
            let wait = MINUTE.mul_f64((missing / per_minute).min(60.0));
            let limit = Limit::Tenant(TenantLimit::DeviceTime);
            return Err(Error::Exhausted { limit, retry_after: Some(wait) });
        }
        bucket.left -= seconds;
        Ok(())
    }
}

/// Device time that was taken for a job. It is given back on drop, unless the job was queued.
#[derive(Debug)]
pub struct DeviceTimeCharge {
    budget: Arc<DeviceTimeBudget>,
    refund: Duration,
}

impl DeviceTimeCharge {
    /// Called when the job is queued.
    pub fn keep(&mut self) {
        self.refund = Duration::ZERO;
    }
}

impl Drop for DeviceTimeCharge {
    fn drop(&mut self) {
        let mut bucket = self.budget.0.lock();
        bucket.left += self.refund.as_secs_f64();
        bucket.refill(Instant::now());
    }
}

impl DeviceTimeBucket {
    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.refilled);
        self.refilled = now;
        if let Some(per_minute) = self.per_minute {
            let gained = per_minute * elapsed.as_secs_f64() / MINUTE.as_secs_f64();
            self.left = (self.left + gained).min(per_minute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(result: Result<()>) -> Option<f64> {
        match result {
            Ok(()) => None,
            Err(Error::Exhausted { retry_after: Some(wait), .. }) => Some(wait.as_secs_f64()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_minute_of_use_refills_in_a_minute() {
        let budget = DeviceTimeBudget::new(Some(6.0));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let two = Duration::from_secs(2);
        for _ in 0..3 {
            assert_eq!(wait(budget.take_at(two, begun)), None);
        }
        let missing = wait(budget.take_at(two, begun)).unwrap();
        assert!((19.0..=20.1).contains(&missing), "{missing}");
        assert!(wait(budget.take_at(two, at(10))).is_some());
        assert_eq!(wait(budget.take_at(two, at(21))), None);
        assert!(wait(budget.take_at(two, at(21))).is_some());
    }

    #[test]
    fn a_long_job_runs_if_the_budget_is_full_and_is_paid_for_later() {
        let budget = DeviceTimeBudget::new(Some(1.0));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(wait(budget.take_at(Duration::from_secs(3), at(1))), None);
        assert!(wait(budget.take_at(Duration::from_secs(1), at(60))).is_some());
        assert!(wait(budget.take_at(Duration::from_millis(1), at(119))).is_some());
        assert_eq!(wait(budget.take_at(Duration::from_millis(1), at(125))), None);
    }

    #[test]
    fn a_job_that_never_begins_costs_nothing() {
        let budget = Arc::new(DeviceTimeBudget::new(Some(1.0)));
        let second = Duration::from_secs(1);
        let mut charge = budget.take(second).unwrap();
        assert!(budget.take(second).is_err());
        drop(charge);
        charge = budget.take(second).unwrap();
        charge.keep();
        drop(charge);
        assert!(budget.take(second).is_err());
    }

    #[test]
    fn time_that_was_used_is_paid_for_later() {
        let budget = Arc::new(DeviceTimeBudget::new(Some(1.0)));
        let none = || budget.take(Duration::ZERO).map(drop);
        budget.charge(Duration::from_secs(1));
        assert_eq!(none(), Ok(()), "nothing is left, but there is no debt");
        budget.charge(Duration::from_secs(1));
        assert!(wait(none()).is_some_and(|wait| wait > 50.0));
    }

    #[test]
    fn without_a_limit_everything_is_allowed() {
        let budget = Arc::new(DeviceTimeBudget::new(None));
        let take = |seconds| {
            let taken = budget.take(Duration::from_secs(seconds));
            taken.map(|mut charge| charge.keep()).is_ok()
        };
        assert!(take(1 << 40));
        budget.set_limit(Some(1.0));
        assert!(take(1) && !take(1));
        budget.set_limit(None);
        assert!(take(1));
    }
}
