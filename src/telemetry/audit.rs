//! The audit log: who did what, one JSON object a line, in a separate file.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The target of audit events, which the other log leaves out.
pub(super) const AUDIT_TARGET: &str = "capstan::audit";

/// What a caller did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditAction {
    /// Put bases, a vector or a program.
    Put,
    /// Read or computed with stored bases.
    Use,
    /// Released bases or a vector.
    Release,
    /// Opened shared memory.
    OpenRegion,
    /// Drained the server.
    Drain,
    /// Presented no valid credentials.
    RefusedLogin,
}

impl AuditAction {
    const fn word(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Use => "use",
            Self::Release => "release",
            Self::OpenRegion => "open_region",
            Self::Drain => "drain",
            Self::RefusedLogin => "refused_login",
        }
    }
}

/// An event of the audit log. It holds ids of objects, but no payloads.
pub(crate) struct AuditEvent<'a> {
    pub action: AuditAction,
    pub caller: &'a str,
    pub tenant: &'a str,
    pub request_id: &'a str,
    /// The address of a TCP peer.
    pub remote: Option<SocketAddr>,
    /// What it was done to, such as `bases 5e…`.
    pub object: fmt::Arguments<'a>,
}

/// Whether the process has an audit log.
pub(crate) fn is_audited() -> bool {
    tracing::enabled!(target: AUDIT_TARGET, tracing::Level::INFO)
}

/// Writes an event, if the process has an audit log.
pub(crate) fn audit(event: &AuditEvent<'_>) {
    let &AuditEvent { action, caller, tenant, request_id, remote, object } = event;
    tracing::info!(
        target: AUDIT_TARGET,
        action = action.word(),
        caller,
        tenant,
        request_id,
        remote = remote.map(tracing::field::display),
        object = %object,
    );
}

/// Opens the file, which only its owner may read. Lines are appended, so that a tool may truncate
/// it.
pub(super) fn open_audit_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
