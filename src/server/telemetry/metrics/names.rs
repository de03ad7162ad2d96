//! The name, type and meaning of each metric.

/// Declares the metrics, and the table of all of them.
macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal,)+) => {
        $(pub(super) const $constant: &str = $name;)+

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
    CERTIFICATE_EXPIRY Gauge "capstan_certificate_expiry_timestamp_seconds"
        "when the first certificate of a file expires, in Unix time, by setting",
    TENANT_JOBS Gauge "capstan_tenant_jobs" "accepted jobs of a tenant",
    TENANT_BYTES Gauge "capstan_tenant_bytes_in_flight" "bytes in flight of a tenant",
    TENANT_STORE_BYTES Gauge "capstan_tenant_store_bytes"
        "bytes of stored bases and matrices of a tenant",
    TENANT_CONNECTIONS Gauge "capstan_tenant_connections" "connections of a tenant",
    BUILD_INFO Gauge "capstan_build_info" "always 1; the labels describe what is running",
    // Prometheus' client libraries use these names.
    PROCESS_RESIDENT_MEMORY_BYTES Gauge "process_resident_memory_bytes"
        "resident memory of the daemon's process",
    PROCESS_OPEN_FDS Gauge "process_open_fds" "open file descriptors of the daemon's process",
    PROCESS_MAX_FDS Gauge "process_max_fds" "limit on open file descriptors",
    PROCESS_CPU_SECONDS_TOTAL Counter "process_cpu_seconds_total"
        "processor time of the daemon's process, in whole seconds",
    PROCESS_START_TIME_SECONDS Gauge "process_start_time_seconds"
        "when the daemon's process started, in Unix time",
    PROCESS_THREADS Gauge "process_threads" "threads of the daemon's process",
}

/// Name and meaning of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name of its time series.
    pub name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) help: &'static str,
}

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}
