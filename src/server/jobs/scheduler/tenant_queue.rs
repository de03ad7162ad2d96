//! The ready jobs of one tenant, and the worker time that the tenant has used.
//!
//! Tenants share the workers by the time that they have used, divided by their weights (start-time
//! fair queueing), not by modelled time in turns (deficit round robin): how long a piece takes is
//! known exactly once it has run. A tenant that returns from a pause starts level with the tenant
//! that was served last. Urgency and seniority order the jobs of one tenant. The jobs of a batch
//! are charged for its time by their vectors. An import of bases pays for its time afterwards.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// A job without a deadline is as urgent as one with this much time left. A job is senior once it
/// has waited for workers for this long in total.
pub const SENIORITY_AGE: Duration = Duration::from_secs(5);

/// While a job is senior, 1/`SENIOR_SHARE` of the tenant's time goes to its most senior job, the
/// rest to its most urgent one.
const SENIOR_SHARE: u32 = 4;

/// How urgent a job is among the jobs of its tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobPriority {
    /// Before all other jobs of the tenant.
    Urgent,
    #[default]
    Normal,
    /// After all other jobs of the tenant.
    Batch,
}

/// Worker time divided by the weight of the tenant that used it, in ns / 2^20.
pub type VirtualTime = u128;

const VIRTUAL_NS: u128 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PickedBy {
    Urgency,
    Seniority,
}

/// Where a ready job is among those of its tenant: both orders begin with the first job to run.
#[derive(Debug, Clone, Copy)]
pub struct ReadyPlace {
    pub priority: JobPriority,
    /// The job's deadline, or what stands for it.
    pub urgency: Instant,
    /// Now, minus the total time for which the job has waited for a worker.
    pub seniority: Instant,
}

#[derive(Default)]
pub struct TenantQueue {
    by_urgency: BTreeSet<(JobPriority, Instant, u64)>,
    by_seniority: BTreeSet<(Instant, u64)>,
    /// Worker time of jobs picked by urgency while a job is senior.
    urgent_time: Duration,
    /// Worker time of jobs picked by seniority.
    senior_time: Duration,
    /// Jobs that workers run.
    pub running: u32,
    /// Grows with the worker time that the tenant uses, and never lags behind that of active
    /// tenants.
    pub virtual_time: VirtualTime,
}

impl TenantQueue {
    pub fn is_empty(&self) -> bool {
        self.by_seniority.is_empty()
    }

    pub fn insert(&mut self, number: u64, place: ReadyPlace) {
        self.by_urgency.insert((place.priority, place.urgency, number));
        self.by_seniority.insert((place.seniority, number));
    }

    pub fn remove(&mut self, number: u64, place: ReadyPlace) {
        self.by_urgency.remove(&(place.priority, place.urgency, number));
        self.by_seniority.remove(&(place.seniority, number));
    }

    /// The number of the job that runs next.
    pub fn first(&mut self, now: Instant) -> Option<(u64, PickedBy)> {
        let &(.., urgent) = self.by_urgency.first()?;
        let &(waiting_since, senior) = self.by_seniority.first()?;
        // The urgent time that is in proportion to the senior time.
        let urgent_share = self.senior_time * (SENIOR_SHARE - 1);
        if now.saturating_duration_since(waiting_since) < SENIORITY_AGE {
            // Without a senior job, no claim accumulates.
            self.urgent_time = self.urgent_time.min(urgent_share);
        }
        Some(match urgent_share < self.urgent_time {
            true => (senior, PickedBy::Seniority),
            false => (urgent, PickedBy::Urgency),
        })
    }

    /// Adds time of a worker.
    pub fn add_worker_time(&mut self, picked_by: PickedBy, time: Duration) {
        match picked_by {
            PickedBy::Urgency => self.urgent_time += time,
            PickedBy::Seniority => self.senior_time += time,
        }
    }

    /// Charges worker time to a tenant of this weight.
    pub fn charge(&mut self, time: Duration, weight: u32) {
        self.virtual_time += time.as_nanos() * VIRTUAL_NS / u128::from(weight.max(1));
    }
}
