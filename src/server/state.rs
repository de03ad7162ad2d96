//! The state that all calls share.

use std::{sync::Arc, time::Instant};

use super::{ServeError, ServerSettings, drain::Drain};
use crate::{
    buffer::{PayloadPool, Quota, Wiper},
    engine::{
        DeviceInfo, MsmNttEngine,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::{Error, Limit},
    exec::{Executor, HostExecutor},
    jobs::{Budget, ComputeHost, Scheduler},
    store::{BasesStore, ProgramStore, Regions, Uploads},
};
#[cfg(feature = "cuda")]
use crate::{engine::cuda::CudaEngine, exec::GpuExecutor};

/// What a server computes with.
pub struct Engines {
    executor: Arc<dyn Executor>,
    /// Why these engines were chosen, in a sentence.
    reason: String,
}

impl Engines {
    /// The CPU engine and its oracle, with `threads` threads each; 0 means one per core.
    ///
    /// Errors: `Internal` if threads cannot be started.
    pub fn cpu(threads: usize, reason: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::on_host(CpuEngine::new(threads)?, ArkworksEngine::new(threads)?, reason))
    }

    /// Programs run on the host, their MSMs and NTTs on `engine`. `oracle` repeats steps for full
    /// checks.
    pub fn on_host(
        engine: impl MsmNttEngine + 'static,
        oracle: impl MsmNttEngine + 'static,
        reason: impl Into<String>,
    ) -> Self {
        let (engine, oracle) = (Arc::new(engine), Arc::new(oracle));
        Self { executor: Arc::new(HostExecutor { engine, oracle }), reason: reason.into() }
    }

    /// Programs run on the GPUs of `engine`. `oracle` repeats steps for full checks.
    #[cfg(feature = "cuda")]
    pub fn on_gpus(
        engine: CudaEngine,
        oracle: impl MsmNttEngine + 'static,
        reason: impl Into<String>,
    ) -> Self {
        let executor = GpuExecutor::new(engine.into(), Arc::new(oracle));
        Self { executor: Arc::new(executor), reason: reason.into() }
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
    pub budget: Budget,
    pub bases: BasesStore,
    /// Holds the payloads of uploads and results.
    pub payloads: PayloadPool,
    pub uploads: Uploads,
    pub programs: ProgramStore,
    pub regions: Regions,
    /// Separate from the wiper of payloads, which must not wait for regions.
    pub region_wiper: Wiper,
    pub connections: Arc<Quota>,
    pub drain: Drain,
    pub started: Instant,
    pub engine_reason: String,
}

impl ServerState {
    /// Opens the data directory and starts the workers.
    pub fn new(settings: ServerSettings, engines: Engines) -> Result<Self, ServeError> {
        let (bytes_max, objects_max) = (settings.store_bytes_max, settings.objects_max.into());
        let Engines { executor, reason } = engines;
        let pinned = executor.take_pinned_memory();
        let workers = match settings.workers {
            0 => executor.jobs_at_once(),
            workers => workers as usize,
        };
        let payloads = PayloadPool::new(settings.bytes_in_flight_max, pinned);
        Ok(Self {
            bases: BasesStore::open(bytes_max, objects_max, settings.data_dir.as_deref())?,
            compute: Arc::new(ComputeHost::new(executor)?),
            scheduler: Scheduler::new(workers)?,
            budget: Budget::server(settings.bytes_in_flight_max, settings.jobs_max.into()),
            uploads: Uploads::new(settings.uploads_max.into(), payloads.clone()),
            regions: Regions::new(settings.region_bytes_max),
            region_wiper: Wiper::default(),
            payloads,
            programs: ProgramStore::default(),
            connections: Quota::new(Limit::Connections, settings.connections_max.into()),
            drain: Drain::default(),
            started: Instant::now(),
            engine_reason: reason,
            settings,
        })
    }
}
