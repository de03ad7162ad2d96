//! Who made a call and from where.

use std::{fmt, net::SocketAddr, sync::Arc};

use crate::{
    telemetry::{self, AuditAction, AuditEvent},
    tenant::Tenant,
};

/// Whoever made a call. Cheap to clone.
#[derive(Clone)]
pub struct CallOrigin {
    pub caller: Arc<str>,
    pub tenant: Arc<Tenant>,
    pub request_id: Arc<str>,
    /// The address of a TCP peer.
    pub remote: Option<SocketAddr>,
}

impl CallOrigin {
    /// Writes to the audit log what the caller does to `object`.
    pub fn audit(&self, action: AuditAction, object: fmt::Arguments<'_>) {
        telemetry::audit(&AuditEvent {
            action,
            caller: &self.caller,
            tenant: self.tenant.name.as_str(),
            request_id: &self.request_id,
            remote: self.remote,
            object,
        });
    }

    /// Writes to the audit log that the caller stores a vector.
    pub fn audit_vector(&self, id: &[u8]) {
        if telemetry::is_audited() {
            self.audit(AuditAction::Put, format_args!("vector {}", hex::encode(id)));
        }
    }
}
