//! Sets up logs and metrics.

mod logs;
mod metrics;

use std::net::SocketAddr;

use metrics_exporter_prometheus::BuildError;
use tracing_subscriber::{filter, util::TryInitError};

pub use self::{
    logs::{LogFormat, install_logs},
    metrics::*,
};

/// Why logs or metrics could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log_level` is not a valid filter.
    #[error("log_level: {0}")]
    Filter(#[from] filter::ParseError),
    /// The process has a log subscriber already.
    #[error("logs are set up already: {0}")]
    Installed(#[from] TryInitError),
    /// The address cannot be bound, or metrics are set up already.
    #[error("cannot serve metrics at {0}: {1}")]
    Metrics(SocketAddr, #[source] BuildError),
}
