//! The modelled time of accepted jobs, from which admission tells whether a job can end in time.
//!
//! Admission refuses a job only if it cannot end in time, by the model: it counts the job and those
//! of its tenant that have earlier deadlines, not what other jobs may add, since a wrong refusal is
//! worse than a late job. The ratio of measured to modelled time is learned from long jobs that ran
//! alone, since the model's constants belong to other hosts.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{JobOwner, JobPriority, SENIORITY_AGE};
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
/// Jobs outside of these say nothing about the machine: a model's mistake, or a cold start.
const RATIO_MIN: f64 = 0.1;
const RATIO_MAX: f64 = 10.0;
/// Of shorter jobs, a constant part that the model leaves out takes most of the time.
const LEARNED_MIN: Duration = Duration::from_millis(50);

/// The accepted jobs of all tenants.
pub struct Backlog {
    state: Mutex<BacklogState>,
    /// Devices that compute at the same time.
    devices: u32,
}

struct BacklogState {
    /// Modelled times of the jobs with deadlines.
    with_deadline: BTreeMap<BacklogKey, Duration>,
    /// The modelled time of each tenant's jobs, unless it is zero.
    modelled: BTreeMap<TenantId, Duration>,
    jobs: u64,
    next_number: u64,
    /// Measured by modelled time of recent jobs.
    ratio: f64,
}

/// Orders the jobs of a tenant as the scheduler does: the next one to run first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BacklogKey {
    tenant: TenantId,
    priority: JobPriority,
    urgency: Instant,
    number: u64,
}

/// A job's part of a [`Backlog`], which is returned on drop.
pub struct BacklogPermit {
    backlog: Arc<Backlog>,
    key: Option<BacklogKey>,
    tenant: TenantId,
    modelled: Duration,
}

impl Backlog {
    pub fn new(devices: usize) -> Arc<Self> {
        Self::with_ratio(devices, RATIO_START)
    }

    /// For jobs that take `ratio` times their modelled time.
    pub(super) fn with_ratio(devices: usize, ratio: f64) -> Arc<Self> {
        let (with_deadline, modelled, jobs, next_number) = Default::default();
        let state = BacklogState { with_deadline, modelled, jobs, next_number, ratio };
        Arc::new(Self { state: Mutex::new(state), devices: devices.max(1) as u32 })
    }

    /// The modelled time of all accepted jobs, until they have ended.
    pub fn modelled(&self) -> Duration {
        self.state
            .lock()
            .modelled
            .values()
            .fold(Duration::ZERO, |sum, time| sum.saturating_add(*time))
    }

    /// The modelled time of a tenant's accepted jobs, until they have ended.
    pub fn modelled_of(&self, tenant: TenantId) -> Duration {
        self.state.lock().modelled.get(&tenant).copied().unwrap_or_default()
    }

    /// Adds a job of this modelled time.
    ///
    /// Errors: `DeadlineTooEarly` if the job, and those of its tenant that must end before it,
    /// would take until after `deadline`. Other jobs may delay it, too; they are not counted.
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
        state.next_number += 1;
        let key = deadline.map(|deadline| BacklogKey {
            tenant: owner.tenant,
            priority: owner.priority,
            urgency: deadline.min(now + SENIORITY_AGE),
            number: state.next_number,
        });
        if let (Some(key), Some(deadline)) = (key, deadline) {
            let left = deadline.saturating_duration_since(now);
            let expected = state.expected(key, modelled, self.devices);
            if expected > left {
                return Err(Error::DeadlineTooEarly {
                    expected_ms: expected.as_millis() as u64,
                    left_ms: left.as_millis() as u64,
                    retry_after: (expected - left).clamp(RETRY_MIN, RETRY_MAX),
                });
            }
            state.with_deadline.insert(key, modelled);
        }
        state.jobs += 1;
        if !modelled.is_zero() {
            let time = state.modelled.entry(owner.tenant).or_default();
            *time = time.saturating_add(modelled);
        }
        Ok(BacklogPermit { backlog: self.clone(), key, tenant: owner.tenant, modelled })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.with_deadline.is_empty() && state.jobs == 0 && state.modelled.is_empty()
    }
}

impl BacklogPermit {
    /// Learns from the job, which has run for `measured`, how the model and the machine differ.
    /// Ignores it while other jobs are accepted too: they may have slowed it down.
    pub fn learn(&self, measured: Duration) {
        let mut state = self.backlog.state.lock();
        let ratio = measured.as_secs_f64() / self.modelled.as_secs_f64().max(f64::MIN_POSITIVE);
        let tells = self.modelled >= LEARNED_MIN && (RATIO_MIN..=RATIO_MAX).contains(&ratio);
        if tells && state.jobs == 1 {
            state.ratio += RATIO_STEP * (ratio - state.ratio);
        }
    }
}

impl BacklogState {
    /// The least time until a new job ends. One of the jobs before it may be about to end.
    fn expected(&self, key: BacklogKey, modelled: Duration, devices: u32) -> Duration {
        let earlier = self.with_deadline.range(..key).rev();
        let own = earlier.take_while(|(other, _)| other.tenant == key.tenant);
        let (sum, longest) = own.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), job| {
            (sum + *job.1, longest.max(*job.1))
        });
        let ahead = (sum - longest) / devices;
        // Nothing is refused on an idle server because of what it has learned.
        let ratio = if ahead.is_zero() { self.ratio.min(RATIO_START) } else { self.ratio };
        Duration::try_from_secs_f64((ahead + modelled).as_secs_f64() * ratio)
            .unwrap_or(Duration::MAX)
    }
}

impl Drop for BacklogPermit {
    fn drop(&mut self) {
        let mut state = self.backlog.state.lock();
        state.jobs -= 1;
        if let Entry::Occupied(mut time) = state.modelled.entry(self.tenant) {
            *time.get_mut() = time.get().saturating_sub(self.modelled);
            if time.get().is_zero() {
                time.remove();
            }
        }
        if let Some(key) = &self.key {
            state.with_deadline.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn owner(tenant: u32, priority: JobPriority) -> JobOwner {
        JobOwner { tenant: TenantId(tenant), weight: 1, priority }
    }

    /// Admits jobs of a tenant at one point in time.
    struct Admission {
        backlog: Arc<Backlog>,
        now: Instant,
        permits: Vec<BacklogPermit>,
    }

    impl Admission {
        fn new(devices: usize) -> Self {
            let backlog = Backlog::with_ratio(devices, 1.0);
            Self { backlog, now: Instant::now(), permits: Vec::new() }
        }

        /// Whether a job that takes `seconds` is accepted. `deadline` is in seconds, too.
        fn admit(&mut self, owner: JobOwner, seconds: u32, deadline: Option<u32>) -> bool {
            let deadline = deadline.map(|seconds| self.now + seconds * SECOND);
            let admitted = self.backlog.admit_at(owner, seconds * SECOND, deadline, self.now);
            admitted.map(|permit| self.permits.push(permit)).is_ok()
        }
    }

    #[test]
    fn only_jobs_that_run_before_it_can_refuse_a_job() {
        use JobPriority::{Batch, Normal, Urgent};
        let mut jobs = Admission::new(1);
        for _ in 0..60 {
            assert!(jobs.admit(owner(1, Normal), 1, None), "has no deadline");
            assert!(jobs.admit(owner(1, Batch), 1, Some(100)), "runs after the others");
            assert!(jobs.admit(owner(2, Urgent), 1, Some(100)), "is of another tenant");
        }
        assert!(jobs.admit(owner(1, Normal), 2, Some(3)));
        assert!(jobs.admit(owner(1, Normal), 2, Some(4)), "the other may be about to end");
        assert!(jobs.admit(owner(1, Normal), 1, Some(2)), "runs before them");
        assert!(!jobs.admit(owner(1, Normal), 2, Some(4)), "three run before it");
        assert!(jobs.admit(owner(1, Urgent), 2, Some(2)));
        assert!(jobs.admit(owner(3, Batch), 2, Some(2)));
        jobs.permits.clear();
        assert!(jobs.backlog.is_empty());
    }

    #[test]
    fn devices_share_the_jobs_ahead() {
        for (devices, is_accepted) in [(1, false), (4, true)] {
            let mut jobs = Admission::new(devices);
            for _ in 0..4 {
                assert!(jobs.admit(owner(1, JobPriority::Normal), 1, Some(4)));
            }
            assert_eq!(jobs.admit(owner(1, JobPriority::Normal), 2, Some(4)), is_accepted);
        }
    }

    #[test]
    fn the_jobs_of_each_tenant_have_their_modelled_time_until_they_end() {
        let mut jobs = Admission::new(2);
        assert!(jobs.admit(owner(1, JobPriority::Normal), 2, None));
        assert!(jobs.admit(owner(2, JobPriority::Batch), 3, Some(100)));
        assert!(!jobs.admit(owner(2, JobPriority::Batch), 5, Some(1)));
        assert_eq!(jobs.backlog.modelled(), 5 * SECOND);
        let of = |tenant| jobs.backlog.modelled_of(TenantId(tenant));
        assert_eq!([of(1), of(2), of(3)], [2 * SECOND, 3 * SECOND, Duration::ZERO]);
        jobs.permits.remove(0);
        assert_eq!(jobs.backlog.modelled(), 3 * SECOND);
    }

    #[test]
    fn a_refusal_says_when_to_retry() {
        let backlog = Backlog::with_ratio(1, 1.0);
        let deadline = Some(Instant::now() + SECOND);
        let owner = owner(1, JobPriority::Normal);
        let refused = backlog.admit(owner, 600 * SECOND, deadline).err().unwrap();
        let Error::DeadlineTooEarly { expected_ms, left_ms, retry_after } = refused else {
            panic!("{refused}");
        };
        assert_eq!(expected_ms, 300_000, "an idle server may be faster than the model");
        assert!(left_ms <= 1000 && retry_after == RETRY_MAX);
        assert!(backlog.is_empty());
    }

    #[test]
    fn learns_from_long_jobs_that_ran_alone() {
        let backlog = Backlog::with_ratio(1, 0.5);
        let admit = |modelled| backlog.admit(owner(1, JobPriority::Normal), modelled, None);
        let ratio = || backlog.state.lock().ratio;
        let (short, long) = (admit(LEARNED_MIN / 2).unwrap(), admit(SECOND).unwrap());
        long.learn(3 * SECOND);
        assert_eq!(ratio(), 0.5, "while another was accepted");
        drop(long);
        short.learn(LEARNED_MIN);
        drop(short);
        let long = admit(SECOND).unwrap();
        long.learn(60 * SECOND);
        assert_eq!(ratio(), 0.5, "too short, or a mistake of the model");
        for _ in 0..100 {
            long.learn(3 * SECOND);
        }
        assert!((2.9..3.1).contains(&ratio()), "{}", ratio());
    }
}
