//! The jobs of a scheduler that no worker runs at the moment, and which of them runs next.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use crate::{engine::JobControl, error::Error};

/// A job without a deadline is as urgent as one with this much time left. A job is senior once it
/// has waited for workers for this long in total.
const SENIORITY_AGE: Duration = Duration::from_secs(5);

/// While a job is senior, 1/`SENIOR_SHARE` of the workers' time goes to the most senior job, the
/// rest to the most urgent one.
const SENIOR_SHARE: u32 = 4;

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
    /// The numbers of the ready jobs, the most urgent first.
    by_urgency: BTreeSet<(Instant, u64)>,
    /// The numbers of the ready jobs, the longest waiting first.
    by_seniority: BTreeSet<(Instant, u64)>,
    /// Jobs that wait for data.
    pub parked: HashMap<u64, ScheduledJob>,
    /// Jobs whose results have been computed, the first one first.
    pub computed: VecDeque<ScheduledJob>,
    /// Worker time of jobs picked by urgency while a job is senior.
    urgent_time: Duration,
    /// Worker time of jobs picked by seniority.
    senior_time: Duration,
}

pub struct ReadyJob {
    pub job: ScheduledJob,
    urgency: Instant,
    seniority: Instant,
}

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPlace {
    Parked,
    Ready,
    Computed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PickedBy {
    Urgency,
    Seniority,
}

pub struct ScheduledJob {
    pub number: u64,
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

/// A job that sends its own answer.
pub trait RunnableJob: Send {
    fn is_ready(&self) -> bool;
    fn is_computed(&self) -> bool;
    /// True when the answer has been sent.
    fn step(&mut self, control: &JobControl, timing: JobTiming) -> bool;
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
            self.by_urgency.insert((urgency, number));
            self.by_seniority.insert((seniority, number));
            self.ready.insert(number, ReadyJob { job, urgency, seniority });
            JobPlace::Ready
        } else {
            self.parked.insert(number, job);
            JobPlace::Parked
        }
    }

    pub fn pick(&mut self, now: Instant) -> Option<PickedJob> {
        let (_, urgent) = *self.by_urgency.first()?;
        let (waiting_since, senior) = *self.by_seniority.first()?;
        // The urgent time that is in proportion to the senior time.
        let urgent_share = self.senior_time * (SENIOR_SHARE - 1);
        if now.saturating_duration_since(waiting_since) < SENIORITY_AGE {
            // Without a senior job, no claim accumulates.
            self.urgent_time = self.urgent_time.min(urgent_share);
        }
        let (number, by) = match urgent_share < self.urgent_time {
            true => (senior, PickedBy::Seniority),
            false => (urgent, PickedBy::Urgency),
        };
        Some(PickedJob { job: self.take_ready(number)?, by })
    }

    pub fn add_worker_time(&mut self, picked_by: PickedBy, time: Duration) {
        match picked_by {
            PickedBy::Urgency => self.urgent_time += time,
            PickedBy::Seniority => self.senior_time += time,
        }
    }

    fn take_ready(&mut self, number: u64) -> Option<ScheduledJob> {
        let ReadyJob { job, urgency, seniority } = self.ready.remove(&number)?;
        self.by_urgency.remove(&(urgency, number));
        self.by_seniority.remove(&(seniority, number));
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
