//! The modelled time of accepted jobs, from which admission tells whether a job can end in time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::JobOwner;
use crate::{
    error::{Error, Result},
    tenant::TenantId,
};

/// A refused caller waits at least and at most this long.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The ratio of measured to modelled time before it is known: refusing a job that could end in time
/// is worse than accepting one that cannot.
const RATIO_START: f64 = 0.5;
/// How much one job changes the ratio of measured to modelled time.
const RATIO_STEP: f64 = 0.1;
/// Ratios outside of these are a model's mistake about one job, not about the machine.
const RATIO_MIN: f64 = 0.1;
const RATIO_MAX: f64 = 10.0;

/// The accepted jobs of all tenants.
pub struct Backlog {
    state: Mutex<BacklogState>,
    /// Devices that compute at the same time.
    devices: u32,
}

struct BacklogState {
    tenants: HashMap<TenantId, TenantBacklog>,
    jobs: u64,
    total: Duration,
    /// The weights of the tenants that have jobs.
    weight: u64,
    /// Measured by modelled time of recent jobs.
    ratio: f64,
}

struct TenantBacklog {
    jobs: u64,
    time: Duration,
    weight: u32,
}

/// A job's part of a [`Backlog`], which is returned on drop.
pub struct BacklogPermit {
    backlog: Arc<Backlog>,
    tenant: TenantId,
    modelled: Duration,
}

impl Backlog {
    pub fn new(devices: usize) -> Arc<Self> {
        Self::with_ratio(devices, RATIO_START)
    }

    /// For jobs that take `ratio` times their modelled time.
    pub(super) fn with_ratio(devices: usize, ratio: f64) -> Arc<Self> {
        let state = BacklogState {
            tenants: HashMap::new(),
            jobs: 0,
            total: Duration::ZERO,
            weight: 0,
            ratio,
        };
        Arc::new(Self { state: Mutex::new(state), devices: devices.max(1) as u32 })
    }

    /// Adds a job of this modelled time.
    ///
    /// Errors: `DeadlineTooEarly` if the jobs that run before it and the job itself would take
    /// until after `deadline`.
    pub fn admit(
        self: &Arc<Self>,
        owner: JobOwner,
        modelled: Duration,
        deadline: Option<Instant>,
    ) -> Result<BacklogPermit> {
        self.admit_at(owner, modelled, deadline, Instant::now())
    }

    pub(super) fn admit_at(
        self: &Arc<Self>,
        owner: JobOwner,
        modelled: Duration,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<BacklogPermit> {
        let mut state = self.state.lock();
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(now);
            let expected = state.expected(owner, modelled, self.devices);
            if expected > left {
                return Err(Error::DeadlineTooEarly {
                    expected_ms: expected.as_millis() as u64,
                    left_ms: left.as_millis() as u64,
                    retry_after: (expected - left).clamp(RETRY_MIN, RETRY_MAX),
                });
            }
        }
        state.add(owner, modelled);
        Ok(BacklogPermit { backlog: self.clone(), tenant: owner.tenant, modelled })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.tenants.is_empty() && state.jobs == 0 && state.total.is_zero() && state.weight == 0
    }

    /// Learns from an accepted job, which has run for `measured`, how the model and the machine
    /// differ. Ignores a job beside which others were accepted: they may have slowed it down.
    fn learn(&self, modelled: Duration, measured: Duration) {
        let mut state = self.state.lock();
        if modelled.is_zero() || state.jobs != 1 {
            return;
        }
        let ratio = measured.as_secs_f64() / modelled.as_secs_f64();
        state.ratio += RATIO_STEP * (ratio.clamp(RATIO_MIN, RATIO_MAX) - state.ratio);
    }
}

impl BacklogPermit {
    /// Learns from the job, which has run for `measured`.
    pub fn learn(&self, measured: Duration) {
        self.backlog.learn(self.modelled, measured);
    }
}

impl BacklogState {
    /// The time until a new job would end: the tenant's own jobs run before it, and jobs of other
    /// tenants as far as their weights let them.
    fn expected(&self, owner: JobOwner, modelled: Duration, devices: u32) -> Duration {
        let own = self.tenants.get(&owner.tenant);
        let (own_time, own_weight) = own.map_or((Duration::ZERO, 0), |own| (own.time, own.weight));
        let others_weight = self.weight - u64::from(own_weight);
        let share = others_weight as f64 / f64::from(owner.weight.max(1));
        let own_until = (own_time + modelled).as_secs_f64();
        let others = (self.total - own_time).as_secs_f64().min(own_until * share);
        let ahead = (own_time.as_secs_f64() + others) / f64::from(devices);
        let seconds = (ahead + modelled.as_secs_f64()) * self.ratio;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn add(&mut self, owner: JobOwner, modelled: Duration) {
        let JobOwner { tenant, weight, .. } = owner;
        let new = || TenantBacklog { jobs: 0, time: Duration::ZERO, weight };
        let own = self.tenants.entry(tenant).or_insert_with(new);
        if own.jobs == 0 {
            self.weight += u64::from(own.weight);
        }
        own.jobs += 1;
        self.jobs += 1;
        own.time += modelled;
        self.total += modelled;
    }

    fn remove(&mut self, tenant: TenantId, modelled: Duration) {
        let Some(own) = self.tenants.get_mut(&tenant) else { return };
        own.jobs -= 1;
        self.jobs -= 1;
        own.time -= modelled;
        self.total -= modelled;
        if own.jobs == 0 {
            self.weight -= u64::from(own.weight);
            self.tenants.remove(&tenant);
        }
    }
}

impl Drop for BacklogPermit {
    fn drop(&mut self) {
        self.backlog.state.lock().remove(self.tenant, self.modelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn owner(tenant: u32, weight: u32) -> JobOwner {
        JobOwner { tenant: TenantId(tenant), weight, ..JobOwner::default() }
    }

    fn expected_s(backlog: &Backlog, owner: JobOwner, seconds: u32) -> f64 {
        let state = backlog.state.lock();
        state.expected(owner, seconds * SECOND, backlog.devices).as_secs_f64()
    }

    #[test]
    fn a_job_waits_for_its_tenants_jobs_and_for_the_share_of_others() {
        let backlog = Backlog::with_ratio(1, 1.0);
        let mut permits = vec![backlog.admit(owner(1, 1), 10 * SECOND, None).unwrap()];
        assert_eq!(expected_s(&backlog, owner(1, 1), 2), 12.0);
        assert_eq!(expected_s(&backlog, owner(2, 1), 2), 4.0, "half of the time is its own");
        assert_eq!(expected_s(&backlog, owner(2, 2), 2), 3.0);
        permits.push(backlog.admit(owner(2, 1), 3 * SECOND, None).unwrap());
        assert_eq!(expected_s(&backlog, owner(2, 1), 20), 33.0, "others have 10 s only");
        permits.remove(0);
        assert_eq!(expected_s(&backlog, owner(2, 1), 1), 4.0);
        permits.clear();
        assert!(backlog.is_empty());
    }

    #[test]
    fn devices_share_the_jobs_ahead() {
        let backlog = Backlog::with_ratio(4, 1.0);
        let _permit = backlog.admit(owner(1, 1), 8 * SECOND, None).unwrap();
        assert_eq!(expected_s(&backlog, owner(1, 1), 1), 3.0);
    }

    #[test]
    fn refuses_a_job_that_would_end_after_its_deadline() {
        let backlog = Backlog::with_ratio(1, 1.0);
        let in_minutes = |minutes: u32| Some(Instant::now() + 60 * minutes * SECOND);
        let _permit = backlog.admit(owner(1, 1), 600 * SECOND, in_minutes(20)).unwrap();
        let refused = backlog.admit(owner(1, 1), SECOND, in_minutes(9)).err().unwrap();
        let Error::DeadlineTooEarly { expected_ms, left_ms, retry_after } = refused else {
            panic!("{refused}");
        };
        assert_eq!(expected_ms, 601_000);
        assert!(left_ms <= 540_000 && retry_after == RETRY_MAX);
        assert!(backlog.admit(owner(2, 1), SECOND, in_minutes(9)).is_ok());
    }

    #[test]
    fn learns_how_fast_the_machine_is() {
        let backlog = Backlog::with_ratio(1, 1.0);
        let permit = backlog.admit(owner(1, 1), SECOND, None).unwrap();
        let beside = backlog.admit(owner(1, 1), SECOND, None).unwrap();
        permit.learn(9 * SECOND);
        drop(beside);
        for _ in 0..100 {
            permit.learn(3 * SECOND);
        }
        drop(permit);
        let expected = expected_s(&backlog, owner(1, 1), 1);
        assert!((2.9..3.1).contains(&expected), "{expected}");
    }
}
