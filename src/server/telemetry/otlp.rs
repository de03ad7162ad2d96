//! Exports the spans of calls and jobs by OTLP over gRPC.
//!
//! Spans are exported from a runtime of one thread, separate from the server's, so that the last
//! ones can be sent after the server has ended. Only `call` and `job` are exported: exporting the
//! spans of the export's own connection would never end.

use std::{io, time::Duration};

use opentelemetry::{
    Context, KeyValue,
    trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
    },
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::runtime::{self, Runtime};
use tonic::transport::ClientTlsConfig;
use tracing::{Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, filter_fn},
    registry::LookupSpan,
};

use super::{TelemetryError, trace_parent::TraceParent};

/// The name of the service in exported spans.
const SERVICE: &str = "capstand";

/// The exported spans. Those inside of jobs are for the log.
const SPANS: [&str; 2] = ["call", "job"];

/// Time for the last spans to reach the collector.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends spans to a collector in batches, and the last ones when it is dropped.
pub(super) struct SpanExport {
    provider: SdkTracerProvider,
    /// Runs the connection to the collector.
    runtime: Option<Runtime>,
}

impl SpanExport {
    /// Starts the threads that export. The collector need not be there.
    ///
    /// Errors: `Otlp`.
    pub fn start(endpoint: &str) -> Result<Self, TelemetryError> {
        let failed = |error: io::Error| TelemetryError::Otlp(error.to_string());
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("capstan-otlp")
            .enable_all()
            .build()
            .map_err(failed)?;
        let entered = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
        let exporter = match endpoint.starts_with("https:") {
            true => exporter.with_tls_config(ClientTlsConfig::new().with_native_roots()),
            false => exporter,
        };
        let exporter = exporter.build();
        let exporter = exporter.map_err(|error| TelemetryError::Otlp(error.to_string()))?;
        drop(entered);
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(SERVICE).with_attribute(version);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Self { provider, runtime: Some(runtime) })
    }

    /// The layer that gives spans to the exporter, whatever the filter of the log.
    pub fn layer<S>(&self) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.provider.tracer(SERVICE);
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        let is_exported = filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG);
        layer.with_location(false).with_threads(false).with_filter(is_exported)
    }
}

impl Drop for SpanExport {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(STOP_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not exported");
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span()
        && metadata.target().starts_with("capstan")
        && SPANS.contains(&metadata.name())
}

/// Makes `span`, which must be new, a child of the caller's span.
pub(crate) fn continue_trace(span: &Span, parent: &TraceParent) {
    let context = SpanContext::new(
        TraceId::from(parent.trace_id.0),
        SpanId::from(parent.parent_id),
        TraceFlags::default().with_sampled(parent.is_sampled),
        true,
        TraceState::default(),
    );
    // Fails if spans are not exported.
    let _not_exported = span.set_parent(Context::new().with_remote_span_context(context));
}
