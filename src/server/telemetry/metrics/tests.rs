use std::{
    collections::BTreeMap,
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
    PHASE_SECONDS.with(["test", "compute"]).record(Duration::from_millis(20));
    record_modelled_time_ratio("cpu", Duration::from_millis(9), Duration::from_millis(10));
    devices(2, 0, 1);
    device(&GpuInfo {
        arena_bytes: 11,
        arena_free_bytes: 6,
        clock_mhz: Some(8),
        ..GpuInfo::default()
    });
    for Metric { name, labels, kind, .. } in METRICS {
        let labels: Vec<_> = labels.iter().map(|label| (*label, "any")).collect();
        match kind {
            MetricKind::Counter => counter!(*name, &labels).increment(5),
            MetricKind::Gauge => gauge!(*name, &labels).set(9.0),
            MetricKind::Histogram => histogram!(*name, &labels).record(1.0),
        }
    }
    let text = scrape(address);
    for Metric { name, kind, help, .. } in METRICS {
        let kind = format!("{kind:?}").to_lowercase();
        assert!(text.contains(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")), "{text}");
    }
    for line in [
        r#"capstan_jobs_total{op="test",outcome="OK"} 1"#,
        r#"capstan_rejected_total{limit="JOBS"} "#,
        r#"capstan_phase_seconds_bucket{op="test",phase="compute",le="0.03"} 1"#,
        r#"capstan_modelled_time_ratio_bucket{engine="cpu",le="0.8"} 0"#,
        r#"capstan_modelled_time_ratio_bucket{engine="cpu",le="1"} 1"#,
        r#"capstan_devices{state="used"} 2"#,
        r#"capstan_device_memory_bytes{device="0",state="leased"} 5"#,
        r#"capstan_device_clock_hertz{device="0"} 8000000"#,
        "capstan_received_bytes_total 5",
        "capstan_preload_failures 9",
        r#"capstan_devices{state="left_out"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(text.contains(r#"engine="cpu""#), "{text}");
    check_process(&text);
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

/// The checks of alerts and dashboards read the labels from the deployment notes.
#[test]
fn deployment_notes_list_every_metric_with_its_labels() {
    let notes = include_str!("../../../../deploy/README.md");
    let rows = notes.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let is_metric = |name: &str| name.starts_with("capstan_") || name.starts_with("process_");
    let rows = rows.filter(|(name, _)| is_metric(name));
    let documented: BTreeMap<_, _> =
        rows.map(|(name, row)| (name, row.split('|').next().unwrap().trim().to_owned())).collect();
    let declared = METRICS.iter().map(|metric| (metric.name, metric.labels.join(", ")));
    assert_eq!(documented, declared.collect());
}
