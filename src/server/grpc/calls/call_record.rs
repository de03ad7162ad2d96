//! Records how calls end in logs and metrics, without payloads, ids or addresses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::Span;

use super::status::CallError;
use crate::grpc::{
    callers::call_origin::CallOrigin, operators::job_history::JobHistory,
    responses::response::as_micros_u64,
};
use crate::{
    jobs::{FinishedJob, ProgramOutput},
    telemetry::{self, CallOutcome},
    wire::v1,
};

/// Names a call in the log.
#[derive(Debug, Clone)]
pub struct CallName {
    /// Who makes the call.
    pub caller: Arc<str>,
    pub request_id: Arc<str>,
}

/// Counts the outcome of a call. If it is dropped before `finish`, the client has gone.
pub struct CallRecord {
    op: &'static str,
    name: CallName,
    begun: Instant,
    is_finished: bool,
}

impl CallRecord {
    pub fn new(op: &'static str, name: CallName) -> Self {
        Self { op, name, begun: Instant::now(), is_finished: false }
    }

    pub fn finish(&mut self, failure: Option<&CallError>) {
        self.is_finished = true;
        let outcome = failure.map_or(CallOutcome::Succeeded, CallError::outcome);
        telemetry::count_call(self.op, outcome);
        let elapsed_us = self.begun.elapsed().as_micros() as u64;
        let Self { op, name: CallName { caller, request_id }, .. } = self;
        let outcome = outcome.text();
        Span::current().record("outcome", outcome);
        if failure.is_some_and(CallError::is_fault) {
            tracing::error!(op, %caller, %request_id, outcome, elapsed_us, "call failed");
        } else {
            tracing::debug!(op, %caller, %request_id, outcome, elapsed_us, "call");
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if !self.is_finished {
            telemetry::count_call(self.op, CallOutcome::ClientGone);
            let outcome = CallOutcome::ClientGone.text();
            Span::current().record("outcome", outcome);
            let Self { op, name: CallName { caller, request_id }, .. } = self;
            tracing::debug!(op, %caller, %request_id, outcome, "call");
        }
    }
}

/// Records the job of one call.
pub struct JobRecorder {
    pub history: Arc<JobHistory>,
    pub origin: CallOrigin,
}

impl JobRecorder {
    /// Records the job of the call `op`, whose input arrived within `receive_time`.
    pub fn record(
        &self,
        op: &'static str,
        finished: &FinishedJob<ProgramOutput>,
        receive_time: Duration,
    ) -> v1::Timing {
        let FinishedJob { output, timing } = finished;
        let report = &output.report;
        let run_time = timing.run + output.computed_elsewhere;
        if output.batch_jobs > 1 {
            telemetry::BATCHED_JOBS_TOTAL.add(1);
        }
        let verify_time = report.verify_time;
        let timing = v1::Timing {
            receive_us: as_micros_u64(receive_time),
            queue_us: as_micros_u64(timing.queue),
            compute_us: as_micros_u64(run_time.saturating_sub(verify_time)),
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
            telemetry::PHASE_SECONDS.with([op, phase]).record(Duration::from_micros(spent_us));
        }
        tracing::debug!(
            op,
            lg_n = report.lg_n,
            receive_us = timing.receive_us,
            queue_us = timing.queue_us,
            compute_us = timing.compute_us,
            verify_us = timing.verify_us,
            engine = report.executor.engine,
            "job done"
        );
        self.history.note(op, &self.origin, finished, &timing);
        timing
    }
}
