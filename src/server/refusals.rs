//! Counts and logs callers without valid credentials.

use std::net::SocketAddr;

use crate::{
    error::CredentialProblem,
    telemetry::{self, LogThrottle},
};

/// Counts a refused caller, and logs it if no other was logged recently.
pub fn record_refusal(problem: CredentialProblem, remote: Option<SocketAddr>) {
    static WARNED: LogThrottle = LogThrottle::new();
    telemetry::count_refused_credentials(problem.reason());
    if let Some(suppressed) = WARNED.pass() {
        let remote = remote.map(tracing::field::display);
        tracing::warn!(%problem, remote, suppressed, "refused a caller without valid credentials");
    }
}
