//! Collects metrics. Label values come from the server's
//! code and configuration only: callers cannot create time series.

mod names;

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, OnceLock},
    time::Duration,
};

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use procfs::{
    ProcResult, WithCurrentSystemInfo, boot_time_secs,
    process::{LimitValue, Process},
    ticks_per_second,
};
use tokio::runtime::Handle;

use self::names::*;
pub use self::names::{METRICS, Metric};
use super::{
    MetricsTls, ReadinessCheck, StatusSource, TelemetryError,
    http::{self, Endpoints},
};
use crate::{
    engine::GpuInfo,
    error::{Error, Reason},
};

/// From 100 us (a small NTT) to 5 minutes (a large MSM on few cores).
const PHASE_BUCKETS_S: [f64; 14] =
    [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// A model within 20 % falls between 0.8 and 1.2.
const MODELLED_TIME_RATIO_BUCKETS: [f64; 11] =
    [0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 4.0, 10.0];

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
    let endpoints =
        Endpoints { metrics, before_scrape: record_process, readiness, status, served_by, tls };
    http::start(listener, endpoints).map_err(failed)?;
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
pub(crate) fn count_refusal<E: Clone + Into<Error>>(error: &E) {
    let error = error.clone().into();
    if error.limit().is_some() || error.reason() == Reason::ProgramTime {
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
pub(crate) fn count_worker_restart() {
    counter!(WORKER_RESTARTS_TOTAL).increment(1);
}

/// Counts a worker process that ended because it or its GPU did not answer in time.
pub(crate) fn count_worker_timeout() {
    counter!(WORKER_TIMEOUTS_TOTAL).increment(1);
}

/// Counts a pause of a GPU that has lost too many worker processes.
pub(crate) fn count_quarantine() {
    counter!(QUARANTINES_TOTAL).increment(1);
}

/// Counts a run that begins again.
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

/// What a tenant uses.
pub(crate) struct TenantGauges {
    pub jobs: u64,
    pub bytes_in_flight: u64,
    pub store_bytes: u64,
    pub connections: u64,
}

/// Sets the gauges of a tenant, whose name must come from the configuration.
pub(crate) fn tenant(name: &str, used: &TenantGauges) {
    for (metric, value) in [
        (TENANT_JOBS, used.jobs),
        (TENANT_BYTES, used.bytes_in_flight),
        (TENANT_STORE_BYTES, used.store_bytes),
        (TENANT_CONNECTIONS, used.connections),
    ] {
        gauge!(metric, "tenant" => name.to_owned()).set(value as f64);
    }
}

/// Sets when the first certificate of the file that a setting names expires, in Unix time.
pub(crate) fn certificate_expiry(setting: &'static str, expiry: Duration) {
    gauge!(CERTIFICATE_EXPIRY, "setting" => setting).set(expiry.as_secs_f64());
}

fn record_process() {
    // The last values of a file of /proc that cannot be read stay.
    let Ok(process) = Process::myself() else { return };
    let _unread = record_stat(&process);
    if let Ok(count) = process.fd_count() {
        gauge!(PROCESS_OPEN_FDS).set(count as f64);
    }
    if let Ok(limits) = process.limits() {
        let files_max = match limits.max_open_files.soft_limit {
            LimitValue::Value(max) => max as f64,
            LimitValue::Unlimited => f64::INFINITY,
        };
        gauge!(PROCESS_MAX_FDS).set(files_max);
    }
}

fn record_stat(process: &Process) -> ProcResult<()> {
    let stat = process.stat()?;
    let ticks = ticks_per_second();
    gauge!(PROCESS_RESIDENT_MEMORY_BYTES).set(stat.rss_bytes().get() as f64);
    gauge!(PROCESS_THREADS).set(stat.num_threads as f64);
    counter!(PROCESS_CPU_SECONDS_TOTAL).absolute((stat.utime + stat.stime) / ticks);
    let started = boot_time_secs()? as f64 + stat.starttime as f64 / ticks as f64;
    gauge!(PROCESS_START_TIME_SECONDS).set(started);
    Ok(())
}

/// Sets the gauges of one GPU.
pub(crate) fn device(gpu: &GpuInfo) {
    let index = gpu.index.to_string();
    let leased_bytes = gpu.arena_bytes.saturating_sub(gpu.arena_free_bytes);
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
