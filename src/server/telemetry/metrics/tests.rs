use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::UNIX_EPOCH,
};

use super::*;
use crate::{
    error::{EngineError, Limit},
    telemetry::StatusAnswer,
};

fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn empty_status() -> StatusSource {
    Arc::new(|_| Box::pin(async { StatusAnswer::Report("{}".into()) }))
}

fn count_events_of_workers() {
    count_worker_restart();
    count_worker_timeout();
    count_quarantine();
    count_repeated_run();
}

fn set_gauges_of_the_configuration() {
    let used = TenantGauges { jobs: 1, bytes_in_flight: 2, store_bytes: 3, connections: 4 };
    tenant("ada", &used);
    certificate_expiry("tls_certificate", Duration::from_secs(1_927_843_200));
}

/// One test, because a process has one recorder.
#[test]
fn serves_every_recorded_metric() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let install = |port| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        install_metrics(address, Arc::new(|| Ok(())), empty_status(), Arc::default(), None)
    };
    let taken = install(other.local_addr().unwrap().port());
    assert!(matches!(taken, Err(TelemetryError::MetricsListener(..))), "bound a taken port");
    let address = install(0).unwrap();
    set_build_info("cpu", "2 threads");
    count_call("test", CallOutcome::Succeeded);
    count_refusal(&EngineError::Exhausted { limit: Limit::Jobs, retry_after: None });
    count_refused_credentials(Reason::CredentialsExpired);
    count_batched_job(1);
    count_batched_job(3);
    record_phase("test", "compute", Duration::from_millis(20));
    record_modelled_time_ratio("cpu", Duration::from_millis(9), Duration::from_millis(10));
    received(5);
    sent(6);
    set_queued_jobs(1);
    payload_memory(2, 1, 3);
    open_calls(5, 6);
    stored(3, 1);
    connections(4);
    count_lost_audit_line();
    count_object_check("intact");
    devices(2, 0, 1);
    pinned_bases(3, 8);
    preload_failures(9);
    set_gauges_of_the_configuration();
    count_device_fault("fatal");
    count_events_of_workers();
    device(&GpuInfo {
        arena_bytes: 11,
        arena_free_bytes: 6,
        temperature_c: Some(7),
        clock_mhz: Some(8),
        power_mw: Some(9),
        ecc_uncorrected: Some(10),
        ..GpuInfo::default()
    });
    let text = scrape(address);
    for Metric { name, kind, help } in METRICS {
        let kind = format!("{kind:?}").to_lowercase();
        assert!(text.contains(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")), "{text}");
    }
    for line in [
        r#"capstan_jobs_total{op="test",outcome="OK"} 1"#,
        r#"capstan_rejected_total{limit="JOBS"} "#,
        r#"capstan_refused_credentials_total{reason="CREDENTIALS_EXPIRED"} 1"#,
        r#"capstan_phase_seconds_bucket{op="test",phase="compute",le="0.03"} 1"#,
        r#"capstan_modelled_time_ratio_bucket{engine="cpu",le="0.8"} 0"#,
        r#"capstan_modelled_time_ratio_bucket{engine="cpu",le="1"} 1"#,
        r#"capstan_devices{state="used"} 2"#,
        r#"capstan_pinned_bases_bytes{device="3"} 8"#,
        "capstan_preload_failures 9",
        r#"capstan_tenant_store_bytes{tenant="ada"} 3"#,
        r#"capstan_certificate_expiry_timestamp_seconds{setting="tls_certificate"} 1927843200"#,
        r#"capstan_devices{state="left_out"} 1"#,
        "capstan_batched_jobs_total 1",
        "capstan_received_bytes_total ",
        "capstan_in_flight_bytes ",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(text.contains(r#"engine="cpu""#), "{text}");
    check_process(&text);
    assert_eq!(documented_labels(), exported_labels(&text));
    assert!(matches!(install(0), Err(TelemetryError::Metrics(_))), "installed twice");
}

/// The metrics of the process have plausible values.
fn check_process(text: &str) {
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("process_{name} ")));
        line.unwrap_or_else(|| panic!("no process_{name} in:\n{text}")).parse().unwrap()
    };
    assert!(value("resident_memory_bytes") > f64::from(1 << 20));
    assert!(value("threads") >= 2.0);
    // Standard input and output, and the listener.
    assert!((3.0..=value("max_fds")).contains(&value("open_fds")));
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    // The clock may have been set since.
    assert!((now - 86_400.0..now + 86_400.0).contains(&value("start_time_seconds")));
    assert!(value("cpu_seconds_total") < 86_400.0);
}

type LabelsByMetric = BTreeMap<String, BTreeSet<String>>;

/// The labels of each metric in the table of the deployment notes, from which the checks of
/// alerts and dashboards read them.
fn documented_labels() -> LabelsByMetric {
    let notes = include_str!("../../../../deploy/README.md");
    let rows = notes.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let rows = rows.filter(|(name, _)| is_metric(name));
    let labels = |row: &str| row.split('|').nth(1).unwrap().trim().to_owned();
    let split = |labels: String| labels.split(", ").map(str::to_owned).collect::<BTreeSet<_>>();
    rows.map(|(name, row)| (name.to_owned(), split(labels(row)))).collect()
}

fn is_metric(line: &str) -> bool {
    ["capstan_", "process_"].iter().any(|prefix| line.starts_with(prefix))
}

fn exported_labels(text: &str) -> LabelsByMetric {
    let mut found = LabelsByMetric::new();
    for line in text.lines().filter(|line| is_metric(line)) {
        let (name, labels) = line.split_once(['{', ' ']).unwrap();
        let mut parts = ["_bucket", "_sum", "_count"].into_iter();
        let stem = parts.find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split(',').map(|label| label.split('=').next().unwrap());
        let labels = labels.filter(|label| *label != "le").map(str::to_owned);
        found.entry(stem.to_owned()).or_default().extend(labels);
    }
    found
}
