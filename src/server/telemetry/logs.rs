//! Logs to standard error, and the export of spans.

use std::io::IsTerminal;

use tracing::{Dispatch, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    fmt::{self, MakeWriter, format::FmtSpan},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use super::TelemetryError;
#[cfg(feature = "otlp")]
use super::otlp::SpanExport;
use crate::settings::LogFormat;

/// Ends the export of spans when it is dropped: the last ones are sent then.
#[must_use]
pub struct LogGuard {
    #[cfg(feature = "otlp")]
    _export: Option<SpanExport>,
}

/// Installs logging to standard error, and the export of spans to an OTLP endpoint, if there is
/// one. A terminal gets colours if `colours` allows them.
///
/// Errors: `Filter`; `Otlp` if the endpoint is unusable, or this build cannot export; `Installed`
/// if the process has a subscriber already.
pub fn install_logs(
    format: LogFormat,
    level: &str,
    colours: bool,
    otlp_endpoint: Option<&str>,
) -> Result<LogGuard, TelemetryError> {
    let filter = EnvFilter::builder().parse(level)?;
    let to = std::io::stderr;
    let ansi = colours && std::io::stderr().is_terminal();
    #[cfg(feature = "otlp")]
    if let Some(endpoint) = otlp_endpoint {
        let export = SpanExport::start(endpoint)?;
        // The log's filter is for the log only.
        let log = log_layer(format, to, ansi).with_filter(filter);
        tracing_subscriber::registry().with(log).with(export.layer()).try_init()?;
        return Ok(LogGuard { _export: Some(export) });
    }
    #[cfg(not(feature = "otlp"))]
    if otlp_endpoint.is_some() {
        return Err(TelemetryError::Otlp("this program is built without the feature otlp".into()));
    }
    logs(format, filter, to, ansi).try_init()?;
    Ok(LogGuard {
        #[cfg(feature = "otlp")]
        _export: None,
    })
}

/// Logs to `writer`. A span is logged when it closes, with its fields, busy time and idle time.
/// Spans that the filter disables cost nothing.
fn logs<W>(format: LogFormat, filter: EnvFilter, writer: W, ansi: bool) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::registry().with(filter).with(log_layer(format, writer, ansi)).into()
}

fn log_layer<S, W>(format: LogFormat, writer: W, ansi: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).log_internal_errors(false);
    let layer = layer.with_span_events(FmtSpan::CLOSE);
    match format {
        LogFormat::Human => layer.with_ansi(ansi).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        sync::Arc,
    };

    use super::*;

    #[test]
    fn logs_spans_if_the_level_enables_them() {
        let logged = |format, level: &str| {
            let log = Arc::new(tempfile::tempfile().unwrap());
            let subscriber = logs(format, level.parse().unwrap(), log.clone(), false);
            tracing::dispatcher::with_default(&subscriber, || {
                let job = tracing::debug_span!("job", n = 7, run_us = tracing::field::Empty);
                let _here = job.enter();
                tracing::info!(bytes = 9, "within");
                job.record("run_us", 8);
            });
            let mut text = String::new();
            (&*log).rewind().unwrap();
            (&*log).read_to_string(&mut text).unwrap();
            text
        };
        let text = logged(LogFormat::Json, "debug");
        let [within, end] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(within.contains(r#""spans":[{"n":7,"name":"job"}]"#), "{text}");
        assert!(end.contains(r#""message":"close","time.busy":"#), "{text}");
        assert!(end.contains(r#""span":{"n":7,"run_us":8,"name":"job"}"#), "{text}");
        let text = logged(LogFormat::Human, "debug");
        assert!(text.contains("job{n=7}: ") && text.contains("job{n=7 run_us=8}: "), "{text}");
        let text = logged(LogFormat::Json, "info");
        assert!(text.lines().count() == 1 && !text.contains("job"), "{text}");
    }
}
