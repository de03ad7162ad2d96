//! The jobs of a scheduler that no worker runs at the moment, and which of them runs next.
//!
//! Tenants share the workers' time in proportion to their weights: the next job is one of the
//! tenant that has used the least time, divided by its weight, of those with ready jobs (start-time
//! fair queueing: Goyal, Vin and Cheng, 1996). A tenant that had no jobs starts with the time of
//! the tenant that was served last, so it has neither a claim nor a debt from before.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use super::{
    short_jobs::ShortJobs,
    tenant_queue::{JobPriority, PickedBy, ReadyPlace, SENIORITY_AGE, TenantQueue, VirtualTime},
};
use crate::{engine::JobControl, error::Error, tenant::TenantId};

/// Fewer tenants are never forgotten.
pub(super) const FORGET_AT_MIN: usize = 1024;

/// Whose job it is.
#[derive(Debug, Clone, Copy)]
pub struct JobOwner {
    pub tenant: TenantId,
    /// The tenant's share of the workers' time, relative to other tenants with ready jobs.
    pub weight: u32,
    pub priority: JobPriority,
}

impl Default for JobOwner {
    fn default() -> Self {
        Self { tenant: TenantId::default(), weight: 1, priority: JobPriority::default() }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct JobTiming {
    /// Time ready and waiting for a worker.
    pub queue: Duration,
    /// Time on a worker.
    pub run: Duration,
}

#[derive(Default)]
pub struct JobQueue {
    pub ready: HashMap<u64, ReadyJob>,
    /// Tenants that have or had jobs.
    tenants: HashMap<TenantId, TenantQueue>,
    /// The number of `tenants` at which some of them are forgotten.
    forget_at: usize,
    /// The tenants with ready jobs, the one that has used the least time first.
    by_usage: BTreeSet<(VirtualTime, TenantId)>,
    /// The virtual time of the tenant that was served last.
    virtual_now: VirtualTime,
    short_jobs: ShortJobs,
    /// Jobs that wait for data.
    pub parked: HashMap<u64, ScheduledJob>,
    /// Jobs whose results have been computed, the first one first.
    pub computed: VecDeque<ScheduledJob>,
}

pub struct ReadyJob {
    pub job: ScheduledJob,
    place: ReadyPlace,
}

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPlace {
    Parked,
    Ready,
    Computed,
}

pub struct ScheduledJob {
    pub number: u64,
    pub owner: JobOwner,
    pub job: Box<dyn RunnableJob>,
    pub control: JobControl,
    /// The latest of: submitted, left a worker, became ready.
    pub state_entered: Instant,
    pub timing: JobTiming,
}

/// A job for a worker.
pub struct PickedJob {
    pub job: ScheduledJob,
    pub by: PickedBy,
}

/// What a step of a job has done.
#[derive(Debug, Clone, Copy)]
pub struct SteppedJob {
    /// Whether the answer has been sent.
    pub is_done: bool,
    /// The worker time that the job's tenant is charged.
    pub charged: Duration,
}

/// A job that sends its own answer.
pub trait RunnableJob: Send {
    fn is_ready(&self) -> bool;
    fn is_short(&self) -> bool;
    fn is_computed(&self) -> bool;
    fn step(&mut self, control: &JobControl, timing: JobTiming) -> SteppedJob;
    fn fail(&mut self, error: Error);
}

impl JobQueue {
    /// Puts a job into `computed`, `ready` or `parked`.
    pub fn enqueue(&mut self, mut job: ScheduledJob, now: Instant) -> JobPlace {
        let number = job.number;
        if job.job.is_computed() {
            job.state_entered = now;
            self.computed.push_back(job);
            JobPlace::Computed
        } else if job.job.is_ready() {
            let default_deadline = job.state_entered + SENIORITY_AGE;
            let deadline = job.control.deadline().unwrap_or(default_deadline);
            let urgency = deadline.min(default_deadline);
            job.state_entered = now;
            // `now` minus the total time in the queue: never before the submission.
            let seniority = now - job.timing.queue;
            let place = ReadyPlace { priority: job.owner.priority, urgency, seniority };
            self.activate(job.owner.tenant).insert(number, place);
            self.ready.insert(number, ReadyJob { job, place });
            JobPlace::Ready
        } else {
            self.parked.insert(number, job);
            JobPlace::Parked
        }
    }

    /// The queue of a tenant that gets a ready job.
    fn activate(&mut self, id: TenantId) -> &mut TenantQueue {
        if self.tenants.len() >= self.forget_at.max(FORGET_AT_MIN) {
            // They would start with the current virtual time, too, if they had been kept.
            let now = self.virtual_now;
            let computed: HashSet<_> = self.computed.iter().map(|job| job.owner.tenant).collect();
            self.tenants.retain(|id, queue| {
                let is_active = !queue.is_empty() || queue.running > 0 || computed.contains(id);
                is_active || queue.virtual_time > now
            });
            self.forget_at = 2 * self.tenants.len();
        }
        let queue = self.tenants.entry(id).or_default();
        if queue.is_empty() {
            queue.virtual_time = queue.virtual_time.max(self.virtual_now);
            self.by_usage.insert((queue.virtual_time, id));
        }
        queue
    }

    pub fn pick(&mut self, now: Instant) -> Option<PickedJob> {
        let &(virtual_time, tenant) = self.by_usage.first()?;
        self.virtual_now = self.virtual_now.max(virtual_time);
        let queue = self.tenants.get_mut(&tenant)?;
        let (number, by) = queue.first(now)?;
        let job = self.take_ready(number)?;
        self.tenants.get_mut(&tenant)?.running += 1;
        let is_short = job.job.is_short();
        self.short_jobs.record(tenant, is_short, now);
        job.control.set_yielding(!is_short && self.short_jobs.are_near(tenant, now));
        Some(PickedJob { job, by })
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let waiting = self.ready.len() + self.parked.len() + self.computed.len();
        let is_idle = |queue: &TenantQueue| queue.is_empty() && queue.running == 0;
        waiting == 0 && self.by_usage.is_empty() && self.tenants.values().all(is_idle)
    }

    /// Records that a picked job leaves its worker after `time`, and charges `charged` for it.
    pub fn end_piece(&mut self, owner: &JobOwner, by: PickedBy, time: Duration, charged: Duration) {
        if let Some(queue) = self.tenants.get_mut(&owner.tenant) {
            queue.running -= 1;
            queue.add_worker_time(by, time);
        }
        self.charge(owner, charged);
    }

    /// Charges worker time to the tenant of a job.
    pub fn charge(&mut self, owner: &JobOwner, time: Duration) {
        let Some(queue) = self.tenants.get_mut(&owner.tenant) else { return };
        let is_ready = self.by_usage.remove(&(queue.virtual_time, owner.tenant));
        queue.charge(time, owner.weight);
        if is_ready {
            self.by_usage.insert((queue.virtual_time, owner.tenant));
        }
    }

    fn take_ready(&mut self, number: u64) -> Option<ScheduledJob> {
        let ReadyJob { job, place } = self.ready.remove(&number)?;
        let tenant = job.owner.tenant;
        let queue = self.tenants.get_mut(&tenant)?;
        queue.remove(number, place);
        if queue.is_empty() {
            self.by_usage.remove(&(queue.virtual_time, tenant));
        }
        Some(job)
    }

    /// Parks a job that was ready and is not any more.
    pub fn park_unready(&mut self, number: u64, now: Instant) {
        if self.ready.get(&number).is_some_and(|ready| !ready.job.job.is_ready())
            && let Some(mut job) = self.take_ready(number)
        {
            job.timing.queue += now - job.state_entered;
            job.state_entered = now;
            self.parked.insert(number, job);
        }
    }

    /// Removes a waiting job if it is cancelled or past its deadline.
    pub fn remove_stopped(&mut self, number: u64) -> Option<ScheduledJob> {
        let ready = self.ready.get(&number).map(|ready| &ready.job);
        let job = ready.or_else(|| self.parked.get(&number));
        job.filter(|job| job.control.check().is_err())?;
        self.take_ready(number).or_else(|| self.parked.remove(&number))
    }
}
