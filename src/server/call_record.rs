//! Records how calls end in logs and metrics, without payloads, ids or addresses.

use std::time::{Duration, Instant};

use super::{response::as_micros_u64, status::CallError};
use crate::{
    engine::{ExecutedBy, StageTime},
    jobs::{FinishedJob, JobReport},
    telemetry,
    wire::v1,
};

/// Counts the outcome of a call. If it is dropped before `finish`, the client has gone.
pub struct CallRecord {
    op: &'static str,
    begun: Instant,
    is_finished: bool,
}

impl CallRecord {
    pub fn new(op: &'static str) -> Self {
        Self { op, begun: Instant::now(), is_finished: false }
    }

    pub fn finish(&mut self, failure: Option<&CallError>) {
        self.is_finished = true;
        let outcome = failure.map_or("ok", CallError::outcome);
        telemetry::count_call(self.op, outcome);
        let elapsed_us = self.begun.elapsed().as_micros() as u64;
        if failure.is_some_and(CallError::is_fault) {
            tracing::error!(op = self.op, outcome, elapsed_us, "call failed");
        } else {
            tracing::debug!(op = self.op, outcome, elapsed_us, "call");
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if !self.is_finished {
            telemetry::count_call(self.op, "client_gone");
            tracing::debug!(op = self.op, outcome = "client_gone", "call");
        }
    }
}

/// Records a job whose payload arrived within `receive_time` and describes it for the response.
pub fn job(
    op: &'static str,
    FinishedJob { output: report, timing }: FinishedJob<JobReport>,
    receive_time: Duration,
) -> (Option<v1::Timing>, Option<v1::Execution>) {
    let JobReport { lg_n, verify, verify_time, executor } = report;
    let timing = v1::Timing {
        receive_us: as_micros_u64(receive_time),
        queue_us: as_micros_u64(timing.queue),
        compute_us: as_micros_u64(timing.run.saturating_sub(verify_time)),
        verify_us: as_micros_u64(verify_time),
        send_us: 0,
    };
    let phases = [
        ("receive", timing.receive_us),
        ("queue", timing.queue_us),
        ("compute", timing.compute_us),
        ("verify", timing.verify_us),
        ("send", timing.send_us),
    ];
    for (phase, spent_us) in phases {
        telemetry::record_phase(op, phase, Duration::from_micros(spent_us));
    }
    tracing::debug!(
        op,
        lg_n,
        receive_us = timing.receive_us,
        queue_us = timing.queue_us,
        compute_us = timing.compute_us,
        verify_us = timing.verify_us,
        engine = executor.engine,
        "job done"
    );
    let ExecutedBy { engine, device, stages, .. } = executor;
    let stage = |stage: StageTime| v1::Stage {
        name: stage.name.into(),
        time_us: as_micros_u64(stage.duration),
    };
    let verified = v1::Verify::from(verify).into();
    let stages = stages.into_iter().map(stage).collect();
    (Some(timing), Some(v1::Execution { engine: engine.into(), device, verified, stages }))
}
