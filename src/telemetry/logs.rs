//! Logs to standard error, and the audit log to its file.

use std::{fs::File, io::IsTerminal, path::Path, sync::Arc};

use tracing::{Dispatch, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{Directive, filter_fn},
    fmt::{self, MakeWriter, format::FmtSpan},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use super::{
    TelemetryError,
    audit::{AUDIT_TARGET, open_audit_file},
};

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people to read.
    Human,
    /// One JSON object per line.
    Json,
}

/// Installs logging to standard error, and the audit log, if there is a file for it.
///
/// Errors: `Filter`; `Audit` if the file cannot be written; `Installed` if the process has a
/// subscriber already.
pub fn install_logs(
    format: LogFormat,
    level: &str,
    audit_file: Option<&Path>,
) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder().parse(level)?;
    let open = |path: &Path| {
        let failed = |source| TelemetryError::Audit { path: path.to_owned(), source };
        open_audit_file(path).map(Arc::new).map_err(failed)
    };
    let audit_file = audit_file.map(open).transpose()?;
    let (to, ansi) = (std::io::stderr, std::io::stderr().is_terminal());
    Ok(logs(format, filter, to, ansi, audit_file).try_init()?)
}

/// Logs to `writer`. A span is logged when it closes, with its fields, busy time and idle time.
/// Spans that the filter disables cost nothing. Audit events go to `audit_file` only.
fn logs<W>(
    format: LogFormat,
    filter: EnvFilter,
    writer: W,
    ansi: bool,
    audit_file: Option<Arc<File>>,
) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, registry) =
        (filter.add_directive(without_audit()), tracing_subscriber::registry());
    let Some(file) = audit_file else {
        return registry.with(filter).with(log_layer(format, writer, ansi)).into();
    };
    let audit = fmt::layer().json().flatten_event(true).with_target(false).with_level(false);
    let audit = audit.with_current_span(false).with_span_list(false).with_writer(file);
    let is_audit = filter_fn(|metadata| metadata.target() == AUDIT_TARGET);
    let audit = audit.log_internal_errors(false).with_filter(is_audit);
    registry.with(log_layer(format, writer, ansi).with_filter(filter)).with(audit).into()
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

/// The directive that keeps audit events out of the log.
fn without_audit() -> Directive {
    let directive = format!("{AUDIT_TARGET}=off").parse();
    directive.expect("a target and a level are a directive")
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        sync::Arc,
    };

    use super::*;
    use crate::telemetry::audit::{AuditAction, AuditEvent, audit, is_audited};

    #[test]
    fn logs_spans_if_the_level_enables_them() {
        let logged = |format, level: &str| {
            let log = Arc::new(tempfile::tempfile().unwrap());
            let subscriber = logs(format, level.parse().unwrap(), log.clone(), false, None);
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

    #[test]
    fn audit_events_go_to_their_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let (log, path) = (Arc::new(tempfile::tempfile().unwrap()), folder.path().join("audit"));
        let event = || AuditEvent {
            action: AuditAction::Release,
            caller: "token:ci",
            tenant: "a",
            request_id: "7",
            remote: Some(([10, 0, 0, 1], 5).into()),
            object: format_args!("bases 0a"),
        };
        for audits in [true, false] {
            let file = audits.then(|| Arc::new(open_audit_file(&path).unwrap()));
            let filter = "trace".parse().unwrap();
            let subscriber = logs(LogFormat::Json, filter, log.clone(), false, file);
            tracing::dispatcher::with_default(&subscriber, || {
                assert_eq!(is_audited(), audits);
                audit(&event());
            });
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let fields = r#""action":"release","caller":"token:ci","tenant":"a","request_id":"7","#;
        assert!(text.lines().count() == 1 && text.contains(fields), "{text}");
        assert!(text.contains(r#""remote":"10.0.0.1:5","object":"bases 0a"}"#), "{text}");
        assert_eq!(log.metadata().unwrap().len(), 0, "the other log has it, too");
    }
}
