//! What the page `/status` shows, as JSON: the server's state, its devices, what is in use, and the
//! last jobs. Administrators also see tenants and callers.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Serialize, Serializer};
use tokio::task::spawn_blocking;

use super::job_history::{JobPlan, JobSummary, unix_ms};
use crate::grpc::{
    devices::{
        device_query::READINGS_WAIT,
        residency,
        residency_report::{self, DeviceHoldings},
    },
    objects::loading::Readiness,
    state::ServerState,
};
use crate::{
    buffer::Quota,
    engine::{DeviceInfo, GpuInfo},
    error::{Error, Result},
    telemetry::StatusAnswer,
    tenant::Tenant,
};

/// A handle that tells how a server is.
#[derive(Clone)]
pub struct StatusReporter {
    pub(in crate::grpc) readiness: Readiness,
    pub(in crate::grpc) gpus_min: u32,
}

#[derive(Serialize)]
struct StatusReport<'a> {
    version: &'static str,
    uptime_s: u64,
    unix_ms: u64,
    /// Why the server is not ready; `None` if it is.
    not_ready: Option<String>,
    engine: &'static str,
    engine_reason: &'a str,
    /// The name of the administrator who asks.
    administrator: Option<String>,
    devices: Vec<DeviceStatus>,
    /// False if a device does not answer: then `devices` has the last readings.
    devices_are_current: bool,
    /// The bases that GPUs hold.
    residency: Vec<DeviceHoldings>,
    queue: QueueStatus,
    limits: Vec<LimitUse>,
    /// The newest first.
    jobs: Vec<ShownJob<'a>>,
    /// The slowest of the last hour, the slowest first.
    slow_jobs: Vec<ShownPlan<'a>>,
    /// For administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenants: Option<Vec<TenantUse>>,
}

#[derive(Serialize)]
struct DeviceStatus {
    name: String,
    kind: &'static str,
    /// Threads or multiprocessors.
    units: u32,
    memory_bytes: u64,
    gpu: Option<GpuInfo>,
}

#[derive(Serialize)]
struct QueueStatus {
    /// Jobs that wait for a worker.
    waiting: u64,
    /// All jobs that are accepted and not yet ended.
    accepted: u64,
}

/// A limit of the server, and how much of it is taken.
#[derive(Serialize)]
struct LimitUse {
    name: &'static str,
    unit: &'static str,
    used: u64,
    max: u64,
}

/// Who made a call: for administrators.
#[derive(Serialize)]
struct OwnerName {
    tenant: String,
    caller: String,
    request_id: String,
}

#[derive(Serialize)]
struct ShownJob<'a> {
    #[serde(flatten)]
    job: &'a JobSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerName>,
}

#[derive(Serialize)]
struct ShownPlan<'a> {
    #[serde(flatten)]
    job: ShownJob<'a>,
    #[serde(flatten)]
    plan: &'a JobPlan,
}

/// What a tenant uses at the moment.
#[derive(Serialize)]
struct TenantUse {
    name: String,
    weight: u32,
    #[serde(flatten, serialize_with = "as_fields")]
    used: Vec<(&'static str, u64)>,
}

fn as_fields<S: Serializer>(
    used: &[(&str, u64)],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(used.iter().copied())
}

impl StatusReporter {
    /// Checks whether the server is ready.
    ///
    /// Errors: why it is not.
    pub fn check_readiness(&self) -> std::result::Result<(), String> {
        self.readiness.check(self.gpus_min)
    }

    /// Waits until the data directory is loaded.
    pub async fn loaded(&self) {
        self.readiness.loaded().await;
    }

    /// Waits until the server drains. Returns the grace period.
    pub async fn draining(&self) -> Duration {
        self.readiness.state.drain.wait_until_begun().await
    }

    /// Answers a request whose header `authorization` has this value.
    pub fn answer(&self, authorization: Option<String>) -> BoxFuture<'static, StatusAnswer> {
        let reporter = self.clone();
        Box::pin(async move {
            let administrator = match authorization {
                None => None,
                Some(header) => match reporter.admin(&header) {
                    Some(name) => Some(name),
                    None => return StatusAnswer::Refused,
                },
            };
            match reporter.report(administrator).await {
                Ok(json) => StatusAnswer::Report(json),
                Err(error) => StatusAnswer::Unavailable(error.to_string()),
            }
        })
    }

    fn admin(&self, authorization: &str) -> Option<String> {
        let ServerState { credentials, settings, .. } = &*self.readiness.state;
        credentials.status_admin(authorization, &settings.auth.status_admins)
    }

    async fn report(&self, administrator: Option<String>) -> Result<String> {
        let state = &self.readiness.state;
        let executor = state.compute.executor.clone();
        let engine = executor.description().kind;
        let is_admin = administrator.is_some();
        let (current, residency) = tokio::join!(
            state.devices.query_within(READINGS_WAIT, executor),
            holdings(state, is_admin)
        );
        let devices_are_current = current.is_some();
        let devices = current.or_else(|| state.devices.last()).unwrap_or_default();
        let (jobs, slow_jobs) = (state.history.last(), state.history.slowest());
        let shown = |job| shown_job(job, is_admin);
        let report = StatusReport {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: state.started.elapsed().as_secs(),
            unix_ms: unix_ms(),
            not_ready: self.check_readiness().err(),
            engine,
            engine_reason: &state.engine_reason,
            tenants: is_admin.then(|| state.tenants.in_use().iter().map(tenant_use).collect()),
            administrator,
            devices: devices.into_iter().map(device_status).collect(),
            devices_are_current,
            residency: residency?,
            queue: QueueStatus {
                waiting: state.scheduler.queued() as u64,
                accepted: state.budget.jobs.used(),
            },
            limits: limits(state),
            jobs: jobs.iter().map(|job| shown(job)).collect(),
            slow_jobs: slow_jobs
                .iter()
                .map(|plan| ShownPlan { job: shown(&plan.job), plan })
                .collect(),
        };
        serde_json::to_string(&report).map_err(|error| Error::internal(error.to_string()))
    }
}

async fn holdings(state: &Arc<ServerState>, names_bases: bool) -> Result<Vec<DeviceHoldings>> {
    let held = residency::snapshot(state).await;
    let state = state.clone();
    // Not on the thread that answers probes.
    let report = spawn_blocking(move || residency_report::report(&state, &held, names_bases));
    report.await.map_err(|_| Error::internal("reporting the bases on devices panicked"))
}

fn shown_job(job: &JobSummary, is_admin: bool) -> ShownJob<'_> {
    let owner = is_admin.then(|| OwnerName {
        tenant: job.origin.tenant.name.to_string(),
        caller: job.origin.caller.to_string(),
        request_id: job.origin.request_id.to_string(),
    });
    ShownJob { job, owner }
}

fn device_status(DeviceInfo { name, kind, units, memory_bytes, gpu }: DeviceInfo) -> DeviceStatus {
    DeviceStatus { name, kind, units, memory_bytes, gpu }
}

fn limits(state: &ServerState) -> Vec<LimitUse> {
    let of =
        |name, unit, quota: &Quota| LimitUse { name, unit, used: quota.used(), max: quota.max() };
    let settings = &state.settings;
    vec![
        of("bytes in flight", "bytes", &state.budget.bytes),
        of("jobs", "", &state.budget.jobs),
        of("stored bytes", "bytes", state.objects.budget()),
        of("stored objects", "", state.objects.slots()),
        LimitUse {
            name: "shared memory",
            unit: "bytes",
            used: state.regions.bytes(),
            max: settings.region_bytes_max,
        },
        LimitUse {
            name: "connections",
            unit: "",
            used: state.connections.used(),
            max: settings.connections_max.into(),
        },
    ]
}

fn tenant_use(tenant: &Arc<Tenant>) -> TenantUse {
    TenantUse { name: tenant.name.to_string(), weight: tenant.weight(), used: tenant.shown() }
}
