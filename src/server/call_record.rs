//! Records how calls end in logs and metrics, without payloads, ids or addresses.

use std::time::{Duration, Instant};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    telemetry,
    wire::v1::{Execution, Timing},
};

/// Every reason that a response can carry: the only values that become metric labels.
const REASONS: [&str; 31] = [
    "UNSPECIFIED",
    "MISSING",
    "LENGTH_MISMATCH",
    "NOT_CANONICAL",
    "NOT_ON_CURVE",
    "NOT_IN_SUBGROUP",
    "BAD_INFINITY",
    "BAD_ENCODING",
    "SIZE_ZERO",
    "SIZE_TOO_LARGE",
    "OUT_OF_RANGE",
    "OBJECT_UNKNOWN",
    "OBJECT_KIND",
    "NO_DATA_DIR",
    "BYTES_IN_FLIGHT",
    "JOBS",
    "CONNECTION_BYTES",
    "CONNECTION_JOBS",
    "UPLOADS",
    "STORE",
    "OBJECTS",
    "DEVICE_MEMORY",
    "UPLOAD_CONFLICT",
    "HASH_MISMATCH",
    "DEADLINE",
    "IDLE",
    "CANCELLED",
    "DRAINING",
    "DEVICE_LOST",
    "ADMIN_ONLY",
    "VERIFY_FAILED",
];

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

    /// Records the end of the call, with its status if it failed.
    pub fn finish(&mut self, failure: Option<&Status>) {
        self.done = true;
        let outcome = failure.map_or("ok", outcome_of);
        telemetry::count_call(self.op, outcome);
        let elapsed_us = self.begun.elapsed().as_micros() as u64;
        match failure {
            Some(status) if matches!(status.code(), Code::Internal | Code::DataLoss) => {
                tracing::error!(op = self.op, outcome, elapsed_us, "call failed");
            }
            _ => tracing::debug!(op = self.op, outcome, elapsed_us, "call"),
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

fn outcome_of(status: &Status) -> &'static str {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    let known = REASONS.into_iter().find(|known| *known == reason);
    known.unwrap_or(match status.code() {
        Code::Internal => "INTERNAL",
        Code::Cancelled => "CANCELLED",
        // Refused by the transport, such as a message above the limit.
        _ => "TRANSPORT",
    })
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
