//! Sets up logs, the audit log, and metrics.

mod audit;
mod http;
mod logs;
mod metrics;
mod network;
#[cfg(feature = "otlp")]
mod otlp;
mod throttle;
mod trace_parent;

use std::{io, net::SocketAddr, path::PathBuf};

use metrics_exporter_prometheus::BuildError;
use tracing_subscriber::{filter, util::TryInitError};

pub(crate) use self::audit::{AuditAction, AuditEvent, audit, is_audited};
#[cfg(feature = "otlp")]
pub(crate) use self::otlp::continue_trace;
pub use self::{
    audit::{AuditLogGuard, close_audit_log, install_audit_log, reopen_audit_log},
    http::{MetricsTls, ReadinessCheck, StatusAnswer, StatusSource},
    logs::{LogGuard, install_logs},
    metrics::*,
};
pub(crate) use self::{network::network, throttle::LogThrottle, trace_parent::TraceParent};
pub use crate::settings::LogFormat;

/// Why logs or metrics could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log_level` is not a valid filter.
    #[error("log_level: {0}")]
    Filter(#[from] filter::ParseError),
    /// The file of the audit log cannot be written.
    #[error("audit_log: {path}: {source}", path = .path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Spans cannot be exported.
    #[error("otlp_endpoint: {0}")]
    Otlp(String),
    /// The process has a log subscriber already.
    #[error("logs are set up already: {0}")]
    Installed(#[from] TryInitError),
    /// Metrics are set up already.
    #[error("cannot collect metrics: {0}")]
    Metrics(#[from] BuildError),
    /// The address cannot be bound.
    #[error("cannot serve metrics at {0}: {1}")]
    MetricsListener(SocketAddr, #[source] io::Error),
}
