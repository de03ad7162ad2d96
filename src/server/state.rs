//! The state that all calls share.

use std::{sync::Arc, time::Instant};

use super::{ServeError, ServerSettings, drain::Drain};
use crate::{
    buffer::{PayloadPool, Quota, Wiper},
    engine::{
        Engine,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::Limit,
    jobs::{Budget, ComputeHost, Scheduler},
    store::{BasesStore, ProgramStore, Regions, Uploads},
};

/// The engines that a server computes with.
pub struct Engines {
    /// Computes the jobs.
    pub engine: Arc<dyn Engine>,
    /// Checks results on request, on its own threads.
    pub oracle: Arc<dyn Engine>,
    /// Why this engine was chosen, in a sentence.
    pub reason: String,
}

impl Engines {
    /// The CPU engine and its oracle, with `threads` threads each; 0 means one per core.
    ///
    /// Errors: `Internal` if threads cannot be started.
    pub fn cpu(threads: usize, reason: impl Into<String>) -> crate::error::Result<Self> {
        Ok(Self {
            engine: Arc::new(CpuEngine::new(threads)?),
            oracle: Arc::new(ArkworksEngine::new(threads)?),
            reason: reason.into(),
        })
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
        let pinned = engines.engine.take_pinned_memory();
        let workers = match settings.workers {
            0 => engines.engine.jobs_at_once(),
            workers => workers as usize,
        };
        let payloads = PayloadPool::new(settings.bytes_in_flight_max, pinned);
        Ok(Self {
            bases: BasesStore::open(bytes_max, objects_max, settings.data_dir.as_deref())?,
            compute: Arc::new(ComputeHost::new(engines.engine, engines.oracle)?),
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
            engine_reason: engines.reason,
            settings,
        })
    }
}
