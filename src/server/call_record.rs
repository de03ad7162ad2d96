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
