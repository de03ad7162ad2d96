//! The audit log: who did what, one JSON object a line, in a separate file.

mod refusals;
mod writer;

use std::{
    fmt,
    net::SocketAddr,
    path::Path,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use self::{refusals::RefusalLimit, writer::AuditQueue};
use super::{TelemetryError, network};

/// Time for the queued lines to reach the file when the daemon stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The log of this process.
static AUDIT_LOG: OnceLock<AuditLog> = OnceLock::new();

/// What a caller did, or was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuditAction {
    /// Put bases, a vector or a program, or made a call that keeps a vector.
    Put,
    /// Read or computed with stored bases.
    Use,
    /// Released bases or a vector.
    Release,
    /// Warmed, pinned, unpinned or evicted bases on devices.
    SetResidency,
    /// Opened shared memory.
    OpenRegion,
    /// Drained the server.
    Drain,
    /// Presented no valid credentials.
    RefusedLogin,
    /// Has credentials, but of a tenant that the server does not know.
    RefusedTenant,
    /// May not make an administrative call.
    RefusedAdmin,
    /// The server found a damaged object; there is no caller.
    FoundDamaged,
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

impl AuditEvent<'_> {
    /// The caller, if it is known, or its network.
    fn peer(&self) -> String {
        match (self.caller, self.remote) {
            ("", Some(address)) => network(address.ip()).to_string(),
            (caller, _) => caller.to_owned(),
        }
    }
}

/// A line of the file.
#[derive(Serialize)]
struct AuditLine<'a> {
    timestamp: String,
    action: AuditAction,
    caller: &'a str,
    tenant: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<SocketAddr>,
    object: fmt::Arguments<'a>,
    /// Events of this action that were not written since the previous line of this action.
    #[serde(skip_serializing_if = "is_zero")]
    suppressed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

struct AuditLog {
    queue: AuditQueue,
    refused_logins: RefusalLimit,
    refused_tenants: RefusalLimit,
    refused_admins: RefusalLimit,
}

/// Writes the queued lines of the audit log when it is dropped.
pub struct AuditLogGuard(&'static AuditLog);

/// Opens the audit log of this process, to which lines are appended. Only the owner may read a new
/// file.
///
/// Errors: `Audit` if the file cannot be opened, or if the process has an audit log already.
pub fn install_audit_log(path: &Path) -> Result<AuditLogGuard, TelemetryError> {
    let failed = |source| TelemetryError::Audit { path: path.to_owned(), source };
    let log = AuditLog::open(path).map_err(failed)?;
    let taken = |_| failed(std::io::ErrorKind::AlreadyExists.into());
    AUDIT_LOG.set(log).map_err(taken)?;
    Ok(AuditLogGuard(AUDIT_LOG.wait()))
}

/// Opens the file of the audit log again, if there is one: lines go to the new file after a tool
/// has renamed the old one.
pub fn reopen_audit_log() {
    if let Some(log) = AUDIT_LOG.get() {
        log.queue.reopen();
    }
}

/// Writes the queued lines of the audit log, for an exit that drops no [`AuditLogGuard`]. Waits for
/// a slow file for five seconds at most. Later lines are lost.
pub fn close_audit_log() {
    if let Some(log) = AUDIT_LOG.get() {
        log.stop();
    }
}

/// Whether the process has an audit log.
pub(crate) fn is_audited() -> bool {
    AUDIT_LOG.get().is_some()
}

/// Writes an event, if the process has an audit log. Does not block: a thread writes the file, and
/// a line is lost and counted if too many wait for it.
pub(crate) fn audit(event: &AuditEvent<'_>) {
    if let Some(log) = AUDIT_LOG.get() {
        log.write(event);
    }
}

impl AuditLog {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            queue: AuditQueue::open(path)?,
            refused_logins: RefusalLimit::new(),
            refused_tenants: RefusalLimit::new(),
            refused_admins: RefusalLimit::new(),
        })
    }

    /// The limit on lines about what strangers can cause at will.
    fn limit(&self, action: AuditAction) -> Option<&RefusalLimit> {
        match action {
            AuditAction::RefusedLogin => Some(&self.refused_logins),
            AuditAction::RefusedTenant => Some(&self.refused_tenants),
            AuditAction::RefusedAdmin => Some(&self.refused_admins),
            _ => None,
        }
    }

    fn write(&self, event: &AuditEvent<'_>) {
        let passed = match self.limit(event.action) {
            Some(limit) => limit.pass(event.peer()),
            None => Some(0),
        };
        if let Some(suppressed) = passed {
            self.send(event, suppressed);
        }
    }

    fn send(&self, event: &AuditEvent<'_>, suppressed: u64) {
        let &AuditEvent { action, caller, tenant, request_id, remote, object } = event;
        let timestamp = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let line =
            AuditLine { timestamp, action, caller, tenant, request_id, remote, object, suppressed };
        let mut line = serde_json::to_vec(&line).expect("text and numbers are JSON");
        line.push(b'\n');
        self.queue.send(line);
    }

    /// Tells how many events were suppressed since the last line, and waits until all lines are
    /// written.
    fn stop(&self) {
        use AuditAction::{RefusedAdmin, RefusedLogin, RefusedTenant};
        for action in [RefusedLogin, RefusedTenant, RefusedAdmin] {
            let suppressed = self.limit(action).map_or(0, RefusalLimit::take_suppressed);
            if suppressed > 0 {
                let object = format_args!("the daemon stops");
                let (caller, tenant, request_id) = ("", "", "");
                let remote = None;
                let event = AuditEvent { action, caller, tenant, request_id, remote, object };
                self.send(&event, suppressed);
            }
        }
        self.queue.stop(STOP_TIMEOUT);
    }
}

impl Drop for AuditLogGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::IpAddr};

    use super::*;

    fn event(action: AuditAction, address: IpAddr) -> AuditEvent<'static> {
        AuditEvent {
            action,
            caller: if action == AuditAction::RefusedLogin { "" } else { "token:ci" },
            tenant: "a",
            request_id: "7",
            remote: Some((address, 5).into()),
            object: format_args!("bases 0a"),
        }
    }

    #[test]
    fn all_lines_are_in_the_file_after_the_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let log = AuditLog::open(&path).unwrap();
        for _ in 0..1000 {
            log.write(&event(AuditAction::Release, [10, 0, 0, 1].into()));
        }
        log.stop();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1000);
        let fields = r#""action":"release","caller":"token:ci","tenant":"a","request_id":"7","#;
        let end = r#""remote":"10.0.0.1:5","object":"bases 0a"}"#;
        assert!(text.contains(&format!("{fields}{end}\n")), "{text}");
        assert!(text.starts_with(r#"{"timestamp":"2"#) && !text.contains("suppressed"), "{text}");
    }

    #[test]
    fn refusals_are_few_lines_that_tell_how_many_were_suppressed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let log = AuditLog::open(&path).unwrap();
        for _ in 0..100 {
            log.write(&event(AuditAction::RefusedLogin, [10, 0, 0, 1].into()));
        }
        for stranger in 0..100 {
            log.write(&event(AuditAction::RefusedLogin, [10, 0, 1, stranger].into()));
        }
        // Strangers cannot hide what known callers are refused.
        log.write(&event(AuditAction::RefusedAdmin, [10, 0, 0, 1].into()));
        log.stop();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let logins = lines.iter().filter(|line| line["action"] == "refused_login");
        let (mut written, mut suppressed) = (0, 0);
        for line in logins {
            written += u64::from(line["object"] != "the daemon stops");
            suppressed += line["suppressed"].as_u64().unwrap_or(0);
        }
        assert!((2..=20).contains(&written), "{text}");
        assert_eq!(written + suppressed, 200, "{text}");
        assert!(text.contains("refused_admin"), "{text}");
    }
}
