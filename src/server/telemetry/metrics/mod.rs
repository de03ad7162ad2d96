//! Collects metrics. Label values come from the server's
//! code and configuration only: callers cannot create time series.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, OnceLock},
    time::Duration,
};

use metrics::{
    SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use procfs::{
    ProcResult, WithCurrentSystemInfo, boot_time_secs,
    process::{LimitValue, Process},
    ticks_per_second,
};
use tokio::runtime::Handle;

use super::{
    MetricsTls, ReadinessCheck, StatusSource, TelemetryError,
    http::{self, Endpoints},
};
use crate::{
    engine::GpuInfo,
    error::{Error, Reason},
};

/// Declares the metrics, each with its labels and its meaning, and the table of all of them.
macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:ident),*] $help:literal;)+) => {
        $(
            pub(crate) const $constant: $kind<{ <[&str]>::len(&[$(stringify!($label)),*]) }> =
                $kind { name: $name, labels: [$(stringify!($label)),*] };
        )+

        /// Every metric.
        const METRICS: &[Metric] = &[
            $(Metric {
                name: $name,
                #[cfg(test)]
                labels: &$constant.labels,
                kind: MetricKind::$kind,
                help: $help,
            }),+
        ];
    };
}

metrics! {
    JOBS_TOTAL: Counter "capstan_jobs_total" [op, outcome]
        "calls that ended, by operation and outcome";
    REJECTED_TOTAL: Counter "capstan_rejected_total" [limit]
        "requests refused because a limit was reached, by limit";
    REFUSED_CREDENTIALS_TOTAL: Counter "capstan_refused_credentials_total" [reason]
        "calls and connections refused because their caller is not known, by reason";
    BATCHED_JOBS_TOTAL: Counter "capstan_batched_jobs_total" []
        "MSMs computed in one batch with others over the same bases";
    PHASE_SECONDS: Histogram "capstan_phase_seconds" [op, phase]
        "time in each phase of a job, by operation and phase";
    MODELLED_TIME_RATIO: Histogram "capstan_modelled_time_ratio" [engine]
        "modelled time of a program divided by the time that it took, by engine";
    RECEIVED_BYTES_TOTAL: Counter "capstan_received_bytes_total" [] "payload bytes received";
    SENT_BYTES_TOTAL: Counter "capstan_sent_bytes_total" [] "payload bytes sent";
    QUEUED_JOBS: Gauge "capstan_queued_jobs" [] "jobs that wait for a worker";
    IN_FLIGHT_BYTES: Gauge "capstan_in_flight_bytes" [] "bytes reserved for jobs and uploads";
    OPEN_CALL_BYTES: Gauge "capstan_open_call_bytes" []
        "bytes counted for open calls and their metadata, health checks aside";
    HEALTH_CHECK_BYTES: Gauge "capstan_health_check_bytes" []
        "bytes counted for health checks, which need no credentials";
    SPARE_MEMORY_BYTES: Gauge "capstan_spare_memory_bytes" []
        "bytes of wiped payload memory kept for later payloads, pinned memory aside";
    REGION_BYTES: Gauge "capstan_region_bytes" [] "bytes of memory shared with local clients";
    STORE_BYTES: Gauge "capstan_store_bytes" [] "bytes of stored bases and matrices";
    STORE_OBJECTS: Gauge "capstan_store_objects" [] "stored bases and matrices";
    OBJECT_CHECKS_TOTAL: Counter "capstan_object_checks_total" [outcome]
        "stored bases and matrices that were hashed again, by outcome: intact or damaged";
    CONNECTIONS: Gauge "capstan_connections" [] "open connections";
    DEVICES: Gauge "capstan_devices" [state] "GPUs, by state: used, restarting, or left out";
    WORKER_RESTARTS_TOTAL: Counter "capstan_worker_restarts_total" []
        "worker processes that ended and were replaced";
    WORKER_TIMEOUTS_TOTAL: Counter "capstan_worker_timeouts_total" []
        "worker processes that ended because they or their GPUs did not answer in time";
    QUARANTINES_TOTAL: Counter "capstan_quarantines_total" []
        "pauses of GPUs that had lost too many worker processes";
    REPEATED_RUNS_TOTAL: Counter "capstan_repeated_runs_total" []
        "runs that began again because their worker process was lost";
    DEVICE_FAULTS_TOTAL: Counter "capstan_device_faults_total" [class] "GPU faults, by class";
    DEVICE_MEMORY_BYTES: Gauge "capstan_device_memory_bytes" [device, state]
        "device memory for jobs, by device and state";
    PINNED_BASES_BYTES: Gauge "capstan_pinned_bases_bytes" [device]
        "bytes of a GPU's memory that pinned bases are charged";
    PRELOAD_FAILURES: Gauge "capstan_preload_failures" []
        "entries of the file of bases to preload that could not be loaded at the start";
    DEVICE_TEMPERATURE_CELSIUS: Gauge "capstan_device_temperature_celsius" [device]
        "temperature of a GPU";
    DEVICE_CLOCK_HERTZ: Gauge "capstan_device_clock_hertz" [device]
        "clock of a GPU's multiprocessors";
    DEVICE_POWER_WATTS: Gauge "capstan_device_power_watts" [device] "power draw of a GPU";
    DEVICE_ECC_UNCORRECTED: Gauge "capstan_device_ecc_uncorrected" [device]
        "uncorrected memory errors of a GPU";
    AUDIT_LOST_TOTAL: Counter "capstan_audit_lost_total" []
        "lines of the audit log that could not be written";
    CERTIFICATE_EXPIRY: Gauge "capstan_certificate_expiry_timestamp_seconds" [setting]
        "when the first certificate of a file expires, in Unix time, by setting";
    TENANT_JOBS: Gauge "capstan_tenant_jobs" [tenant] "accepted jobs of a tenant";
    TENANT_BYTES: Gauge "capstan_tenant_bytes_in_flight" [tenant] "bytes in flight of a tenant";
    TENANT_STORE_BYTES: Gauge "capstan_tenant_store_bytes" [tenant]
        "bytes of stored bases and matrices of a tenant";
    TENANT_CONNECTIONS: Gauge "capstan_tenant_connections" [tenant] "connections of a tenant";
    BUILD_INFO: Gauge "capstan_build_info" [version, engine, device]
        "always 1; the labels describe what is running";
    // Prometheus' client libraries use these names.
    PROCESS_RESIDENT_MEMORY_BYTES: Gauge "process_resident_memory_bytes" []
        "resident memory of the daemon's process";
    PROCESS_OPEN_FDS: Gauge "process_open_fds" [] "open file descriptors of the daemon's process";
    PROCESS_MAX_FDS: Gauge "process_max_fds" [] "limit on open file descriptors";
    PROCESS_CPU_SECONDS_TOTAL: Counter "process_cpu_seconds_total" []
        "processor time of the daemon's process, in whole seconds";
    PROCESS_START_TIME_SECONDS: Gauge "process_start_time_seconds" []
        "when the daemon's process started, in Unix time";
    PROCESS_THREADS: Gauge "process_threads" [] "threads of the daemon's process";
}

/// Name and meaning of a metric.
#[derive(Debug, Clone, Copy)]
struct Metric {
    name: &'static str,
    #[cfg(test)]
    labels: &'static [&'static str],
    kind: MetricKind,
    help: &'static str,
}

/// Declares the Prometheus types of metrics. `with` gives the series with these values of labels.
macro_rules! kinds {
    ($($kind:ident, $recorder:ident;)+) => {
        #[derive(Debug, Clone, Copy)]
        enum MetricKind {
            $($kind,)+
        }

        $(
            pub(crate) struct $kind<const N: usize> {
                name: &'static str,
                labels: [&'static str; N],
            }

            impl<const N: usize> $kind<N> {
                pub fn with(&self, values: [impl Into<SharedString>; N]) -> metrics::$kind {
                    let labels = self.labels.into_iter().zip(values.map(Into::into));
                    $recorder!(self.name, &labels.collect::<Vec<(_, SharedString)>>())
                }
            }
        )+
    };
}

kinds! {
    Counter, counter;
    Gauge, gauge;
    Histogram, histogram;
}

impl Counter<0> {
    pub fn add(&self, count: u64) {
        counter!(self.name).increment(count);
    }
}

impl Gauge<0> {
    pub fn set(&self, value: u64) {
        gauge!(self.name).set(value as f64);
    }
}

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
    let phases = Matcher::Full(PHASE_SECONDS.name.to_owned());
    let errors = Matcher::Full(MODELLED_TIME_RATIO.name.to_owned());
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(phases, &PHASE_BUCKETS_S)
        .and_then(|builder| builder.set_buckets_for_metric(errors, &MODELLED_TIME_RATIO_BUCKETS))
        .and_then(PrometheusBuilder::install_recorder)?;
    let endpoints =
        Endpoints { metrics, before_scrape: record_process, readiness, status, served_by, tls };
    http::start(listener, endpoints).map_err(failed)?;
    for &Metric { name, kind, help, .. } in METRICS {
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
    BUILD_INFO.with([version, engine, device].map(str::to_owned)).set(1.0);
}

pub(crate) fn count_call(op: &'static str, outcome: CallOutcome) {
    JOBS_TOTAL.with([op, outcome.text()]).increment(1);
}

/// Counts a request that a limit refuses, if `error` is about a limit.
pub(crate) fn count_refusal<E: Clone + Into<Error>>(error: &E) {
    let error = error.clone().into();
    if error.limit().is_some() || error.reason() == Reason::ProgramTime {
        REJECTED_TOTAL.with([error.reason().text()]).increment(1);
    }
}

/// Records how a program's modelled time compares with the time that it took.
pub(crate) fn record_modelled_time_ratio(
    engine: &'static str,
    modelled: Duration,
    measured: Duration,
) {
    if !measured.is_zero() {
        let ratio = modelled.as_secs_f64() / measured.as_secs_f64();
        MODELLED_TIME_RATIO.with([engine]).record(ratio);
    }
}

/// Sets the numbers of GPUs that are used, whose worker is being replaced, and that were requested
/// but are left out.
pub fn devices(used: usize, restarting: usize, left_out: usize) {
    for (state, count) in [("used", used), ("restarting", restarting), ("left_out", left_out)] {
        DEVICES.with([state]).set(count as f64);
    }
}

/// Counts a GPU fault.
pub fn count_device_fault(class: &'static str) {
    DEVICE_FAULTS_TOTAL.with([class]).increment(1);
}

fn record_process() {
    // The last values of a file of /proc that cannot be read stay.
    let Ok(process) = Process::myself() else { return };
    let _unread = record_stat(&process);
    if let Ok(count) = process.fd_count() {
        PROCESS_OPEN_FDS.set(count as u64);
    }
    if let Ok(limits) = process.limits() {
        let files_max = match limits.max_open_files.soft_limit {
            LimitValue::Value(max) => max as f64,
            LimitValue::Unlimited => f64::INFINITY,
        };
        gauge!(PROCESS_MAX_FDS.name).set(files_max);
    }
}

fn record_stat(process: &Process) -> ProcResult<()> {
    let stat = process.stat()?;
    let ticks = ticks_per_second();
    PROCESS_RESIDENT_MEMORY_BYTES.set(stat.rss_bytes().get());
    PROCESS_THREADS.set(stat.num_threads as u64);
    counter!(PROCESS_CPU_SECONDS_TOTAL.name).absolute((stat.utime + stat.stime) / ticks);
    let started = boot_time_secs()? as f64 + stat.starttime as f64 / ticks as f64;
    gauge!(PROCESS_START_TIME_SECONDS.name).set(started);
    Ok(())
}

/// Sets the gauges of one GPU.
pub(crate) fn device(gpu: &GpuInfo) {
    let index = gpu.index.to_string();
    let leased_bytes = gpu.arena_bytes.saturating_sub(gpu.arena_free_bytes);
    for (name, bytes) in [("leased", leased_bytes), ("free", gpu.arena_free_bytes)] {
        DEVICE_MEMORY_BYTES.with([index.clone(), name.to_owned()]).set(bytes as f64);
    }
    let readings = [
        (DEVICE_TEMPERATURE_CELSIUS, gpu.temperature_c.map(f64::from)),
        (DEVICE_CLOCK_HERTZ, gpu.clock_mhz.map(|mhz| f64::from(mhz) * 1e6)),
        (DEVICE_POWER_WATTS, gpu.power_mw.map(|mw| f64::from(mw) / 1e3)),
        (DEVICE_ECC_UNCORRECTED, gpu.ecc_uncorrected.map(|errors| errors as f64)),
    ];
    for (metric, value) in readings {
        if let Some(value) = value {
            metric.with([index.clone()]).set(value);
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
