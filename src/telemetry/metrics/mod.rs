//! Collects metrics, and defines the name and meaning of each. Label values come from the server's
//! code and configuration only: callers cannot create time series.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, OnceLock},
    time::Duration,
};

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::runtime::Handle;

use super::{
    MetricsTls, ReadinessCheck, StatusSource, TelemetryError,
    http::{self, Endpoints},
};
use crate::{
    engine::GpuInfo,
    error::{Error, FieldProblem, Reason},
};

/// Declares the metrics, and the table of all of them.
macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal,)+) => {
        $(const $constant: &str = $name;)+

        /// Every metric.
        pub const METRICS: &[Metric] = &[
            $(Metric { name: $constant, kind: MetricKind::$kind, help: $help }),+
        ];
    };
}

metrics! {
    JOBS_TOTAL Counter "capstan_jobs_total" "calls that ended, by operation and outcome",
    REJECTED_TOTAL Counter "capstan_rejected_total"
        "requests refused because a limit was reached, by limit",
    REFUSED_CREDENTIALS_TOTAL Counter "capstan_refused_credentials_total"
        "calls and connections refused because their caller is not known, by reason",
    BATCHED_JOBS_TOTAL Counter "capstan_batched_jobs_total"
        "MSMs computed in one batch with others over the same bases",
    PHASE_SECONDS Histogram "capstan_phase_seconds"
        "time in each phase of a job, by operation and phase",
    MODELLED_TIME_RATIO Histogram "capstan_modelled_time_ratio"
        "modelled time of a program divided by the time that it took, by engine",
    RECEIVED_BYTES_TOTAL Counter "capstan_received_bytes_total" "payload bytes received",
    SENT_BYTES_TOTAL Counter "capstan_sent_bytes_total" "payload bytes sent",
    QUEUED_JOBS Gauge "capstan_queued_jobs" "jobs that wait for a worker",
    IN_FLIGHT_BYTES Gauge "capstan_in_flight_bytes" "bytes reserved for jobs and uploads",
    OPEN_CALL_BYTES Gauge "capstan_open_call_bytes"
        "bytes counted for open calls and their metadata, health checks aside",
    HEALTH_CHECK_BYTES Gauge "capstan_health_check_bytes"
        "bytes counted for health checks, which need no credentials",
    SPARE_MEMORY_BYTES Gauge "capstan_spare_memory_bytes"
        "bytes of wiped payload memory kept for later payloads, pinned memory aside",
    REGION_BYTES Gauge "capstan_region_bytes" "bytes of memory shared with local clients",
    STORE_BYTES Gauge "capstan_store_bytes" "bytes of stored bases and matrices",
    STORE_OBJECTS Gauge "capstan_store_objects" "stored bases and matrices",
    OBJECT_CHECKS_TOTAL Counter "capstan_object_checks_total"
        "stored bases and matrices that were hashed again, by outcome: intact or damaged",
    CONNECTIONS Gauge "capstan_connections" "open connections",
    DEVICES Gauge "capstan_devices" "GPUs, by state: used, restarting, or left out",
    WORKER_RESTARTS_TOTAL Counter "capstan_worker_restarts_total"
        "worker processes that ended and were replaced",
    WORKER_TIMEOUTS_TOTAL Counter "capstan_worker_timeouts_total"
        "worker processes that ended because they or their GPUs did not answer in time",
    QUARANTINES_TOTAL Counter "capstan_quarantines_total"
        "pauses of GPUs that had lost too many worker processes",
    REPEATED_RUNS_TOTAL Counter "capstan_repeated_runs_total"
        "runs that began again because their worker process was lost",
    DEVICE_FAULTS_TOTAL Counter "capstan_device_faults_total" "GPU faults, by class",
    DEVICE_MEMORY_BYTES Gauge "capstan_device_memory_bytes"
        "device memory for jobs, by device and state",
    PINNED_BASES_BYTES Gauge "capstan_pinned_bases_bytes"
        "bytes of a GPU's memory that pinned bases are charged",
    PRELOAD_FAILURES Gauge "capstan_preload_failures"
        "entries of the file of bases to preload that could not be loaded at the start",
    DEVICE_TEMPERATURE_CELSIUS Gauge "capstan_device_temperature_celsius" "temperature of a GPU",
    DEVICE_CLOCK_HERTZ Gauge "capstan_device_clock_hertz" "clock of a GPU's multiprocessors",
    DEVICE_POWER_WATTS Gauge "capstan_device_power_watts" "power draw of a GPU",
    DEVICE_ECC_UNCORRECTED Gauge "capstan_device_ecc_uncorrected"
        "uncorrected memory errors of a GPU",
    AUDIT_LOST_TOTAL Counter "capstan_audit_lost_total"
        "lines of the audit log that could not be written",
    BUILD_INFO Gauge "capstan_build_info" "always 1; the labels describe what is running",
}

/// From 100 us (a small NTT) to 5 minutes (a large MSM on few cores).
const PHASE_BUCKETS_S: [f64; 14] =
    [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// A model within 20 % falls between 0.8 and 1.2.
const MODELLED_TIME_RATIO_BUCKETS: [f64; 11] =
    [0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 4.0, 10.0];

/// Name and meaning of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name of its time series.
    pub name: &'static str,
    kind: MetricKind,
    help: &'static str,
}

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// How a call ended: the label `outcome` of a metric, and a field of logs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallOutcome {
    Succeeded,
    Failed(Reason),
    /// The transport refused the call without a reason: for example, a message above the limit.
    TransportFailed,
    /// The client disconnected or cancelled before the answer.
    ClientGone,
}

impl CallOutcome {
    pub const fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "OK",
            Self::Failed(reason) => reason.text(),
            Self::TransportFailed => "TRANSPORT",
            Self::ClientGone => "CLIENT_GONE",
        }
    }
}

/// Collects metrics, and serves them at `address` from a separate thread: metrics at `/metrics`,
/// liveness at `/healthz`, `readiness` at `/readyz`, and a page at `/status` that shows `status`.
/// Liveness asks the runtime of gRPC, once it is in `served_by`. Without `tls`, by plain HTTP.
/// Returns the bound address: port 0 selects a free port.
///
/// Errors: `MetricsListener` if the address cannot be bound; `Metrics` on a second call.
pub fn install_metrics(
    address: SocketAddr,
    readiness: ReadinessCheck,
    status: StatusSource,
    served_by: Arc<OnceLock<Handle>>,
    tls: Option<Arc<dyn MetricsTls>>,
) -> Result<SocketAddr, TelemetryError> {
    let failed = |error| TelemetryError::MetricsListener(address, error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let phases = Matcher::Full(PHASE_SECONDS.to_owned());
    let errors = Matcher::Full(MODELLED_TIME_RATIO.to_owned());
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(phases, &PHASE_BUCKETS_S)
        .and_then(|builder| builder.set_buckets_for_metric(errors, &MODELLED_TIME_RATIO_BUCKETS))
        .and_then(PrometheusBuilder::install_recorder)?;
    http::start(listener, Endpoints { metrics, readiness, status, served_by, tls })
        .map_err(failed)?;
    for &Metric { name, kind, help } in METRICS {
        match kind {
            MetricKind::Counter => describe_counter!(name, help),
            MetricKind::Gauge => describe_gauge!(name, help),
            MetricKind::Histogram => describe_histogram!(name, help),
        }
    }
    Ok(bound)
}

/// Sets the build information. `engine` and `device` are the engine's description.
pub fn set_build_info(engine: &'static str, device: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let labels = [("version", version.to_owned()), ("engine", engine.to_owned())];
    gauge!(BUILD_INFO, &[&labels[..], &[("device", device.to_owned())]].concat()).set(1.0);
}

pub(crate) fn count_call(op: &'static str, outcome: CallOutcome) {
    counter!(JOBS_TOTAL, "op" => op, "outcome" => outcome.text()).increment(1);
}

/// Counts an MSM that was computed in one batch of `jobs` jobs.
pub fn count_batched_job(jobs: usize) {
    if jobs > 1 {
        counter!(BATCHED_JOBS_TOTAL).increment(1);
    }
}

/// Counts a request that a limit refuses, if `error` is about a limit.
pub(crate) fn count_refusal(error: &Error) {
    use FieldProblem::{ProgramBytes, ProgramTime};
    let is_limit = match error {
        Error::Exhausted { .. } | Error::PinRefused { .. } => true,
        Error::Step { problem, .. } => matches!(problem, ProgramBytes { .. } | ProgramTime { .. }),
        _ => false,
    };
    if is_limit {
        counter!(REJECTED_TOTAL, "limit" => error.reason().text()).increment(1);
    }
}

/// Counts a call whose credentials are missing, invalid or expired.
pub(crate) fn count_refused_credentials(reason: Reason) {
    counter!(REFUSED_CREDENTIALS_TOTAL, "reason" => reason.text()).increment(1);
}

/// Records the time of a job in `phase`: receive, queue, compute, verify or send.
pub(crate) fn record_phase(op: &'static str, phase: &'static str, spent: Duration) {
    histogram!(PHASE_SECONDS, "op" => op, "phase" => phase).record(spent.as_secs_f64());
}

/// Records how a program's modelled time compares with the time that it took.
pub(crate) fn record_modelled_time_ratio(
    engine: &'static str,
    modelled: Duration,
    measured: Duration,
) {
    if !measured.is_zero() {
        let ratio = modelled.as_secs_f64() / measured.as_secs_f64();
        histogram!(MODELLED_TIME_RATIO, "engine" => engine).record(ratio);
    }
}

pub(crate) fn received(bytes: u64) {
    counter!(RECEIVED_BYTES_TOTAL).increment(bytes);
}

pub(crate) fn sent(bytes: u64) {
    counter!(SENT_BYTES_TOTAL).increment(bytes);
}

pub(crate) fn set_queued_jobs(jobs: u64) {
    gauge!(QUEUED_JOBS).set(jobs as f64);
}

/// Sets the bytes reserved for jobs and uploads, those kept for later payloads, and those shared.
pub(crate) fn payload_memory(in_flight: u64, spare: u64, shared: u64) {
    gauge!(IN_FLIGHT_BYTES).set(in_flight as f64);
    gauge!(REGION_BYTES).set(shared as f64);
    gauge!(SPARE_MEMORY_BYTES).set(spare as f64);
}

pub(crate) fn open_calls(bytes: u64, health_check_bytes: u64) {
    gauge!(OPEN_CALL_BYTES).set(bytes as f64);
    gauge!(HEALTH_CHECK_BYTES).set(health_check_bytes as f64);
}

pub(crate) fn stored(bytes: u64, objects: u64) {
    gauge!(STORE_BYTES).set(bytes as f64);
    gauge!(STORE_OBJECTS).set(objects as f64);
}

pub(crate) fn count_object_check(outcome: &'static str) {
    counter!(OBJECT_CHECKS_TOTAL, "outcome" => outcome).increment(1);
}

pub(crate) fn connections(open: u64) {
    gauge!(CONNECTIONS).set(open as f64);
}

pub(super) fn count_lost_audit_line() {
    counter!(AUDIT_LOST_TOTAL).increment(1);
}

/// Sets the numbers of GPUs that are used, whose worker is being replaced, and that were requested
/// but are left out.
pub fn devices(used: usize, restarting: usize, left_out: usize) {
    gauge!(DEVICES, "state" => "used").set(used as f64);
    gauge!(DEVICES, "state" => "restarting").set(restarting as f64);
    gauge!(DEVICES, "state" => "left_out").set(left_out as f64);
}

/// Counts a worker process that has ended.
#[cfg(feature = "cuda")]
pub(crate) fn count_worker_restart() {
    counter!(WORKER_RESTARTS_TOTAL).increment(1);
}

/// Counts a worker process that ended because it or its GPU did not answer in time.
#[cfg(feature = "cuda")]
pub(crate) fn count_worker_timeout() {
    counter!(WORKER_TIMEOUTS_TOTAL).increment(1);
}

/// Counts a pause of a GPU that has lost too many worker processes.
#[cfg(feature = "cuda")]
pub(crate) fn count_quarantine() {
    counter!(QUARANTINES_TOTAL).increment(1);
}

/// Counts a run that begins again.
#[cfg(feature = "cuda")]
pub(crate) fn count_repeated_run() {
    counter!(REPEATED_RUNS_TOTAL).increment(1);
}

/// Counts a GPU fault.
pub fn count_device_fault(class: &'static str) {
    counter!(DEVICE_FAULTS_TOTAL, "class" => class).increment(1);
}

/// Sets the bytes of a GPU that pinned bases are charged.
pub(crate) fn pinned_bases(device: u32, bytes: u64) {
    gauge!(PINNED_BASES_BYTES, "device" => device.to_string()).set(bytes as f64);
}

/// Sets the number of bases that could not be loaded at the start.
pub(crate) fn preload_failures(entries: usize) {
    gauge!(PRELOAD_FAILURES).set(entries as f64);
}

/// Sets the gauges of one GPU.
pub(crate) fn device(gpu: &GpuInfo) {
    let index = gpu.index.to_string();
    let leased_bytes = gpu.arena_bytes - gpu.arena_free_bytes;
    for (name, bytes) in [("leased", leased_bytes), ("free", gpu.arena_free_bytes)] {
        let labels = [("device", index.clone()), ("state", name.to_owned())];
        gauge!(DEVICE_MEMORY_BYTES, &labels).set(bytes as f64);
    }
    let readings = [
        (DEVICE_TEMPERATURE_CELSIUS, gpu.temperature_c.map(f64::from)),
        (DEVICE_CLOCK_HERTZ, gpu.clock_mhz.map(|mhz| f64::from(mhz) * 1e6)),
        (DEVICE_POWER_WATTS, gpu.power_mw.map(|mw| f64::from(mw) / 1e3)),
        (DEVICE_ECC_UNCORRECTED, gpu.ecc_uncorrected.map(|errors| errors as f64)),
    ];
    for (name, value) in readings {
        if let Some(value) = value {
            gauge!(name, "device" => index.clone()).set(value);
        }
    }
}

/// The metrics that `work` records on this thread, in scrape format.
#[cfg(test)]
pub(crate) fn metrics_of(work: impl FnOnce()) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, work);
    recorder.handle().render()
}

#[cfg(test)]
mod tests;
