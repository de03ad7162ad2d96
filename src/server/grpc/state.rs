//! The state that all calls share.

use std::{sync::Arc, time::Instant};

use tokio::sync::watch;
use tonic::codegen::http::HeaderValue;
use tracing::info;

use super::{
    ServeError, ServerSettings,
    callers::credentials::Credentials,
    calls::call_memory::CallMemoryPool,
    connections::connection_limits::ConnectionLimits,
    devices::{
        device_query::DeviceQuery,
        pins::PinTable,
        preload_file::{PreloadEntry, read_preload_file},
        residency_snapshot::ResidencyQueries,
    },
    drain::Drain,
    operators::job_history::JobHistory,
    responses::unread_responses::UnreadResponses,
};
use crate::{
    buffer::{PayloadPool, Wiper},
    engine::{
        DeviceInfo, MsmNttEngine,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, CudaModel, INTEGER_LIMBS_MIN},
    },
    error::{Error, Limit},
    exec::{BusyPoll, Executor, GpuExecutor, HostExecutor, JOBS_PER_DEVICE},
    jobs::{Backlog, Budget, ComputeHost, Scheduler},
    store::{ObjectStore, ProgramStore, Regions, UploadLimits, Uploads},
    tenant::Tenants,
    worker::{NoWorkers, WorkerExecutor, WorkerPoolSettings, WorkerSettings, start_pool},
};

/// Bytes of all calls that need no credentials, which are probes of health. Twice what the
/// connections of one address may have.
const PROBE_BYTES_MAX: u64 = 32 << 20;

/// Memory of open calls with credentials. Error messages and documents state it.
const OPEN_CALL_BYTES_MAX: u64 = 96 << 20;

/// What a server computes with.
pub struct Engines {
    executor: Arc<dyn Executor>,
    /// Why these engines were chosen, in a sentence.
    reason: String,
    /// Bytes of payload memory that the engines access directly.
    pinned_bytes: u64,
}

impl Engines {
    /// The CPU engine and its oracle, with `threads` threads each; 0 means one per core.
    ///
    /// Errors: `Internal` if threads cannot be started.
    pub fn cpu(threads: usize, reason: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::on_host(CpuEngine::new(threads)?, ArkworksEngine::new(threads)?, reason))
    }

    /// Programs run on the host, their MSMs and NTTs on `engine`. `oracle` runs them again for full
    /// checks.
    pub fn on_host(
        engine: impl MsmNttEngine + 'static,
        oracle: impl MsmNttEngine + 'static,
        reason: impl Into<String>,
    ) -> Self {
        let executor =
            Arc::new(HostExecutor { engine: Arc::new(engine), oracle: Some(Arc::new(oracle)) });
        Self { executor, reason: reason.into(), pinned_bytes: 0 }
    }

    /// Programs run on the GPUs of `engine`. `oracle` runs them again for full checks. The server
    /// pins `pinned_bytes` bytes of its payload memory, or as many as the driver grants.
    pub fn on_gpus(
        engine: CudaEngine,
        oracle: impl MsmNttEngine + 'static,
        reason: impl Into<String>,
        pinned_bytes: u64,
    ) -> Self {
        let executor = GpuExecutor::new(engine.into(), Some(Arc::new(oracle)));
        Self { executor: Arc::new(executor), reason: reason.into(), pinned_bytes }
    }

    /// Programs run on GPUs in worker processes; on the host, by `cpu`, while no GPU serves.
    /// `oracle` runs them again for full checks. The workers pin `pinned_bytes` bytes of the
    /// server's payload memory, or as many as the driver grants.
    ///
    /// Errors: no worker can be started, or no GPU can be used.
    pub fn on_workers(
        settings: WorkerPoolSettings,
        cpu: CpuEngine,
        oracle: impl MsmNttEngine + 'static,
        pinned_bytes: u64,
    ) -> Result<Self, NoWorkers> {
        let cpu = Arc::new(cpu);
        let WorkerSettings { msm_scalars_min, ntt_elements_min, .. } = settings.worker;
        let pool = start_pool(settings)?;
        let model = CudaModel {
            cpu: cpu.clone(),
            gpus: pool.gpus().to_vec(),
            msm_scalars_min,
            ntt_elements_min,
            integer_limbs_min: INTEGER_LIMBS_MIN,
        };
        let reason = pool.summary();
        let host = HostExecutor { engine: cpu, oracle: Some(Arc::new(oracle)) };
        let executor = WorkerExecutor::new(pool, model, host);
        Ok(Self { executor: Arc::new(executor), reason, pinned_bytes })
    }

    /// All devices that compute, described as one.
    pub fn description(&self) -> DeviceInfo {
        self.executor.description()
    }

    /// The devices with current readings. May take milliseconds.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.executor.devices()
    }

    /// Why these engines were chosen, in a sentence.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

pub struct ServerState {
    pub settings: ServerSettings,
    pub compute: Arc<ComputeHost>,
    pub scheduler: Scheduler,
    pub backlog: Arc<Backlog>,
    pub budget: Budget,
    /// Memory of all calls that need no credentials.
    pub health_checks: CallMemoryPool,
    /// Memory of the open calls of all tenants, which is not among the bytes in flight.
    pub open_calls: CallMemoryPool,
    pub tenants: Arc<Tenants>,
    pub objects: Arc<ObjectStore>,
    pub devices: DeviceQuery<Vec<DeviceInfo>>,
    /// What devices hold.
    pub residency: ResidencyQueries,
    pub pins: PinTable,
    /// Bases to load on devices before the server is ready.
    pub preload: Vec<PreloadEntry>,
    /// True once the files of the data directory are loaded.
    pub is_loaded: watch::Sender<bool>,
    /// Holds the payloads that the server receives.
    pub inputs: PayloadPool,
    pub results: PayloadPool,
    pub uploads: Uploads,
    pub programs: ProgramStore,
    pub regions: Regions,
    /// Separate from the wiper of payloads, which must not wait for regions.
    pub region_wiper: Wiper,
    pub connections: ConnectionLimits,
    pub credentials: Arc<Credentials>,
    pub drain: Drain,
    pub unread: UnreadResponses,
    pub history: Arc<JobHistory>,
    /// Names this server in responses.
    pub instance: HeaderValue,
    pub started: Instant,
    pub engine_reason: String,
}

impl ServerState {
    /// Reads credentials, opens the data directory, without loading it, and starts the workers.
    pub fn new(settings: ServerSettings, engines: Engines) -> Result<Self, ServeError> {
        let tenants = Arc::new(Tenants::default());
        let credentials = Arc::new(Credentials::read(&settings, &tenants)?);
        let preload = settings.preload.as_deref().map(read_preload_file).transpose()?;
        let Engines { executor, reason, pinned_bytes } = engines;
        let workers = match settings.workers {
            0 => executor.jobs_at_once(),
            workers => workers as usize,
        };
        let devices = executor.jobs_at_once() / JOBS_PER_DEVICE;
        let bases_devices = executor.bases_devices();
        let has_gpus = executor.description().kind == "cuda";
        let busy_poll =
            if has_gpus { BusyPoll::new(settings.busy_poll) } else { BusyPoll::default() };
        let pinned_bytes = pinned_bytes / 2;
        let payload_max = settings.bytes_in_flight_max;
        let inputs = PayloadPool::of_inputs(payload_max, pinned_bytes).map_err(Error::from)?;
        let results = PayloadPool::new(payload_max, pinned_bytes).map_err(Error::from)?;
        for pool in [&inputs, &results] {
            pin(pool, &*executor, pinned_bytes as usize);
        }
        let store_bytes_max = settings.store_bytes_max;
        let objects_max = settings.objects_max.into();
        let data_dir = settings.data_dir.as_deref();
        let objects = ObjectStore::open(store_bytes_max, objects_max, data_dir, &tenants)?;
        Ok(Self {
            programs: ProgramStore::default(),
            objects: Arc::new(objects),
            is_loaded: watch::Sender::new(false),
            compute: Arc::new(ComputeHost::new(executor)?),
            scheduler: Scheduler::new(workers, busy_poll)?,
            backlog: Backlog::new(devices),
            budget: Budget::server(settings.bytes_in_flight_max, settings.jobs_max.into()),
            health_checks: CallMemoryPool::new(Limit::Probes, PROBE_BYTES_MAX),
            open_calls: CallMemoryPool::new(Limit::OpenCalls, OPEN_CALL_BYTES_MAX),
            tenants,
            devices: DeviceQuery::new(|executor| executor.devices()),
            residency: ResidencyQueries::new(&bases_devices),
            pins: PinTable::new(&bases_devices, settings.pinned_bases_percent),
            preload: preload.unwrap_or_default(),
            uploads: Uploads::new(settings.uploads_max.into(), inputs.clone()).with_limits(
                UploadLimits {
                    streams_max: settings.upload_streams_max.into(),
                    bytes_per_second_min: settings.peer_bytes_per_second_min,
                },
            ),
            regions: Regions::new(settings.region_bytes_max),
            region_wiper: Wiper::default(),
            inputs,
            results,
            connections: ConnectionLimits::new(&settings),
            credentials,
            drain: Drain::default(),
            unread: UnreadResponses::default(),
            history: Arc::default(),
            instance: random_name()?,
            started: Instant::now(),
            engine_reason: reason,
            settings,
        })
    }
}

fn random_name() -> Result<HeaderValue, Error> {
    let mut name = [0; 16];
    let internal = |error| Error::internal(format!("no randomness: {error}"));
    getrandom::fill(&mut name).map_err(internal)?;
    let name = HeaderValue::from_str(&hex::encode(name));
    name.map_err(|error| Error::internal(error.to_string()))
}

/// Lets the devices of `executor` access the first `bytes` bytes of payload memory directly.
fn pin(payloads: &PayloadPool, executor: &dyn Executor, bytes: usize) {
    let begun = Instant::now();
    let memory = payloads.memory();
    if let Some(pinning) = executor.share_memory(memory, bytes) {
        payloads.hold_pinning(pinning);
    }
    let ms = begun.elapsed().as_millis() as u64;
    // If GPUs are in workers, the workers pin the memory and log that.
    if memory.pinned_bytes() > 0 {
        info!(bytes = memory.pinned_bytes(), of = bytes, ms, "pinned memory for payloads");
    }
}
