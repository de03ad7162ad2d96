//! Counts, logs and audits callers without valid credentials, or without a known tenant.

use std::net::SocketAddr;

use tonic::{body::Body, codegen::http::Request};

use crate::grpc::{calls::request_id::RequestId, connections::connection::Peer};
use crate::{
    error::{CredentialProblem, Error},
    identity::Caller,
    telemetry::{self, AuditAction, AuditEvent, LogThrottle},
};

/// Bytes of a path in the audit log: strangers choose it.
const PATH_BYTES_MAX: usize = 128;

/// What a refused caller tried.
pub struct RefusedAttempt<'a> {
    /// The path of a call, or another step.
    pub what: &'a str,
    pub request_id: &'a str,
    /// The address of a TCP peer.
    pub remote: Option<SocketAddr>,
}

impl<'a> RefusedAttempt<'a> {
    pub fn of(request: &'a Request<Body>) -> Self {
        let extensions = request.extensions();
        let path = request.uri().path();
        Self {
            what: &path[..path.floor_char_boundary(PATH_BYTES_MAX)],
            request_id: extensions.get::<RequestId>().map_or("", |request| &request.id),
            remote: Peer::of(extensions).and_then(|peer| peer.remote),
        }
    }
}

/// Counts and audits a refused caller, and logs it if no other was logged recently.
pub fn record_refusal(problem: CredentialProblem, attempt: &RefusedAttempt<'_>) {
    static WARNED: LogThrottle = LogThrottle::new();
    let &RefusedAttempt { what, request_id, remote } = attempt;
    telemetry::REFUSED_CREDENTIALS_TOTAL.with([problem.reason().text()]).increment(1);
    if let Some(suppressed) = WARNED.pass() {
        let remote = remote.map(tracing::field::display);
        tracing::warn!(%problem, remote, suppressed, "refused a caller without valid credentials");
    }
    telemetry::audit(&AuditEvent {
        action: AuditAction::RefusedLogin,
        caller: "",
        tenant: "",
        request_id,
        remote,
        object: format_args!("{what}: {problem}"),
    });
}

/// Audits a caller whose tenant is not known.
pub fn record_unknown_tenant(caller: &Caller, error: &Error, attempt: &RefusedAttempt<'_>) {
    let &RefusedAttempt { what, request_id, remote } = attempt;
    telemetry::audit(&AuditEvent {
        action: AuditAction::RefusedTenant,
        caller: &caller.subject,
        tenant: caller.tenant.as_deref().unwrap_or_default(),
        request_id,
        remote,
        object: format_args!("{what}: {error}"),
    });
}
