//! The jobs that ended last, and the slowest of them, for people who look at the server. Sizes,
//! times and names only: no payloads and no ids of objects.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use serde::Serialize;

use crate::grpc::callers::call_origin::CallOrigin;
use crate::{
    exec::StepReport,
    jobs::{FinishedJob, ProgramOutput},
    wire::v1,
};

/// Jobs that are kept, however old they are.
const LAST_MAX: usize = 50;

/// Of these, the steps are kept, too.
const SLOWEST_MAX: usize = 10;

/// After this time, a slow job makes room for another one.
const SLOW_AGE_MAX: Duration = Duration::from_secs(3600);

/// Steps that are kept of one job.
const STEPS_MAX: usize = 64;

/// Makes summaries of jobs, which take a lock for less than a microsecond.
#[derive(Default)]
pub struct JobHistory(Mutex<KeptJobs>);

#[derive(Default)]
struct KeptJobs {
    last: VecDeque<Arc<JobSummary>>,
    /// The slowest first.
    slowest: Vec<SlowJob>,
}

struct SlowJob {
    ended: Instant,
    time_us: u64,
    plan: Arc<JobPlan>,
}

/// A job that has ended.
#[derive(Serialize)]
pub struct JobSummary {
    /// The call: `msm`, `ntt` or `run`.
    pub call: &'static str,
    /// log2 of the length of one vector or row, rounded down.
    pub lg_n: u32,
    pub ended_unix_ms: u64,
    pub receive_us: u64,
    pub queue_us: u64,
    pub compute_us: u64,
    pub verify_us: u64,
    pub engine: &'static str,
    /// Device and method.
    pub device: String,
    /// Jobs that were computed together with this one, itself included.
    pub batch_jobs: usize,
    /// Who made the call.
    #[serde(skip)]
    pub origin: CallOrigin,
}

/// A slow job with its steps.
#[derive(Clone, Serialize)]
pub struct JobPlan {
    #[serde(skip)]
    pub job: Arc<JobSummary>,
    /// By the model; `None` if the job does not state it.
    pub modelled_us: Option<u64>,
    pub steps: Vec<PlannedStep>,
    /// Steps that are not listed.
    pub more_steps: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedStep {
    /// Such as `ntt`.
    pub operation: &'static str,
    pub time_us: u64,
    /// How the engine computed it; empty if the host did.
    pub method: String,
}

impl JobHistory {
    /// Notes a job whose phases took the times in `timing`.
    pub fn note(
        &self,
        call: &'static str,
        origin: &CallOrigin,
        finished: &FinishedJob<ProgramOutput>,
        timing: &v1::Timing,
    ) {
        let ProgramOutput { report, steps, modelled_time, batch_jobs, .. } = &finished.output;
        let job = JobSummary {
            call,
            lg_n: report.lg_n,
            ended_unix_ms: unix_ms(),
            receive_us: timing.receive_us,
            queue_us: timing.queue_us,
            compute_us: timing.compute_us,
            verify_us: timing.verify_us,
            engine: report.executor.engine,
            device: report.executor.device.clone(),
            batch_jobs: *batch_jobs,
            origin: origin.clone(),
        };
        self.insert(job, Instant::now(), |job| JobPlan {
            job,
            modelled_us: modelled_time.map(|time| time.as_micros() as u64),
            steps: steps.iter().take(STEPS_MAX).map(planned_step).collect(),
            more_steps: steps.len().saturating_sub(STEPS_MAX),
        });
    }

    fn insert(&self, job: JobSummary, now: Instant, plan: impl FnOnce(Arc<JobSummary>) -> JobPlan) {
        let job = Arc::new(job);
        let time_us = job.compute_us + job.verify_us;
        let mut kept = self.0.lock();
        kept.slowest.retain(|slow| now.saturating_duration_since(slow.ended) < SLOW_AGE_MAX);
        let place = kept.slowest.partition_point(|slow| slow.time_us >= time_us);
        if place < SLOWEST_MAX {
            let plan = Arc::new(plan(job.clone()));
            kept.slowest.insert(place, SlowJob { ended: now, time_us, plan });
            kept.slowest.truncate(SLOWEST_MAX);
        }
        if kept.last.len() == LAST_MAX {
            kept.last.pop_front();
        }
        kept.last.push_back(job);
    }

    /// The jobs that ended last, the newest first.
    pub fn last(&self) -> Vec<Arc<JobSummary>> {
        self.0.lock().last.iter().rev().cloned().collect()
    }

    /// The slowest jobs of the last hour, the slowest first.
    pub fn slowest(&self) -> Vec<Arc<JobPlan>> {
        let kept = self.0.lock();
        let now = Instant::now();
        let is_recent = |slow: &&SlowJob| now.saturating_duration_since(slow.ended) < SLOW_AGE_MAX;
        kept.slowest.iter().filter(is_recent).map(|slow| slow.plan.clone()).collect()
    }
}

fn planned_step(step: &StepReport) -> PlannedStep {
    PlannedStep {
        operation: step.operation,
        time_us: step.duration.as_micros() as u64,
        method: step.method.clone(),
    }
}

/// The time of the system, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{Tenant, TenantId, TenantLimits, TenantName};

    fn insert(history: &JobHistory, compute_us: u64, now: Instant) {
        let job = JobSummary {
            call: "msm",
            lg_n: 10,
            ended_unix_ms: 0,
            receive_us: 0,
            queue_us: 0,
            compute_us,
            verify_us: 0,
            engine: "cpu",
            device: String::new(),
            batch_jobs: 1,
            origin: CallOrigin {
                caller: "ada".into(),
                tenant: Tenant::new(
                    TenantId::default(),
                    TenantName::default(),
                    &TenantLimits::default(),
                )
                .into(),
                request_id: "r".into(),
                remote: None,
            },
        };
        let plan = |job| JobPlan { job, modelled_us: None, steps: Vec::new(), more_steps: 0 };
        history.insert(job, now, plan);
    }

    #[test]
    fn the_last_and_the_slowest_jobs_are_kept() {
        let history = JobHistory::default();
        let now = Instant::now();
        for time in (0..200).chain(100..150) {
            insert(&history, time, now);
        }
        let last: Vec<_> = history.last().iter().map(|job| job.compute_us).collect();
        assert_eq!(last, (100..150).rev().collect::<Vec<_>>());
        let slowest: Vec<_> = history.slowest().iter().map(|slow| slow.job.compute_us).collect();
        assert_eq!(slowest, (190..200).rev().collect::<Vec<_>>());
        // A quick job is the slowest one an hour later.
        insert(&history, 1, now + SLOW_AGE_MAX);
        let slowest = history.slowest();
        assert_eq!(slowest.iter().map(|slow| slow.job.compute_us).collect::<Vec<_>>(), [1]);
    }
}
