//! Records how calls end in logs and metrics, without payloads, ids or addresses.

use std::time::{Duration, Instant};

use super::status::CallError;
use crate::{
    telemetry,
    wire::v1::{Execution, Timing},
};

/// Counts the outcome of a call. If it is dropped before `finish`, the client has gone.
pub struct CallRecord {
    op: &'static str,
    begun: Instant,
    done: bool,
}

impl CallRecord {
    /// Begins the record of a call.
    pub fn new(op: &'static str) -> Self {
        Self { op, begun: Instant::now(), done: false }
    }

    /// Records the end of the call, with its error if it failed.
    pub fn finish(&mut self, failure: Option<&CallError>) {
        self.done = true;
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
        if !self.done {
            telemetry::count_call(self.op, "client_gone");
            tracing::debug!(op = self.op, outcome = "client_gone", "call");
        }
    }
}

/// Records the phases of a job in metrics and in the log.
pub fn job(op: &'static str, lg_n: u32, timing: &Timing, execution: &Execution) {
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
        engine = execution.engine,
        "job done"
    );
}
