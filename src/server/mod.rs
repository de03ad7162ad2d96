//! The gRPC service: listeners, limits, handlers. The only module that uses tonic's server side.

mod admin;
mod call;
mod call_record;
mod compute;
mod connection;
mod deadline;
mod drain;
mod import;
mod listen;
mod msm;
mod ntt;
mod ntt_stream;
mod read_object;
mod receive;
mod response;
mod routes;
pub mod settings;
mod status;
mod store;
mod unary_body;

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
pub use settings::{ServerSettings, TlsIdentity};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tonic::{service::Routes, transport::Server as Transport};

use self::{
    deadline::DeadlineLayer,
    drain::Drain,
    listen::{ConnectionLimiter, Listeners},
};
use crate::{
    buffer::Quota,
    engine::{
        Engine,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::Limit,
    jobs::{Budget, ComputeHost, Scheduler},
    store::{BasesStore, Uploads},
    telemetry,
};

/// Interval at which idle uploads are dropped and gauges are set.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(500);

/// Ticks between updates of the GPU gauges: NVML takes milliseconds.
const DEVICE_GAUGE_TICKS: u32 = 20;

/// Time for the last responses to leave their sockets: hyper can wait forever for a silent
/// connection (hyper issue 4170).
const SHUTDOWN_LINGER: Duration = Duration::from_secs(1);

/// Lifetime of a connection that is opened during a drain. Less than `DRAINING_RETRY` of `status`,
/// so that a client repeats a refused call over another connection.
const DRAINING_CONNECTION_AGE: Duration = Duration::from_millis(500);

/// State shared by all handlers.
pub struct ServerState {
    settings: ServerSettings,
    compute: Arc<ComputeHost>,
    scheduler: Scheduler,
    budget: Budget,
    bases: BasesStore,
    uploads: Uploads,
    connections: Arc<Quota>,
    drain: Drain,
    started: Instant,
    engine_reason: String,
}

/// A boxed future. Every crate that awaits an async function compiles its body: boxing keeps the
/// server out of its callers' builds.
type ServeFuture<T> = BoxFuture<'static, Result<T, ServeError>>;

/// A server that is bound to its addresses but does not serve yet.
pub struct Server {
    state: Arc<ServerState>,
    listeners: Listeners,
}

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

/// Why a server failed to start or to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {0}")]
    Listen(io::Error),
    /// The data directory cannot be used, or threads cannot be started.
    #[error(transparent)]
    Start(#[from] crate::error::Error),
    /// TLS or the transport failed.
    #[error("transport: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The reflection service refused its descriptors.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A handle that drains a server.
#[derive(Clone)]
pub struct Drainer(Arc<ServerState>);

impl Drainer {
    /// Makes the server refuse new work. [`Server::serve`] returns when the accepted work is done,
    /// at the latest after `grace`; `None` means the configured grace period.
    pub fn drain(&self, grace: Option<Duration>) {
        self.0.drain.begin(grace.unwrap_or(self.0.settings.drain_grace));
    }
}

impl Server {
    /// Opens the data directory, starts the workers, and listens.
    ///
    /// Errors: see [`ServeError`].
    pub async fn bind(settings: ServerSettings, engines: Engines) -> Result<Self, ServeError> {
        Self::open(settings, engines).await
    }

    fn open(settings: ServerSettings, engines: Engines) -> ServeFuture<Self> {
        Box::pin(async move {
            let (bytes_max, objects_max) = (settings.store_bytes_max, settings.objects_max.into());
            let bases = BasesStore::open(bytes_max, objects_max, settings.data_dir.as_deref())?;
            let listeners = Listeners::bind(&settings).await.map_err(ServeError::Listen)?;
            let state = ServerState {
                compute: Arc::new(ComputeHost::new(engines.engine, engines.oracle)?),
                scheduler: Scheduler::new(settings.workers as usize)?,
                budget: Budget::server(settings.bytes_in_flight_max, settings.jobs_max.into()),
                bases,
                uploads: Uploads::new(settings.uploads_max.into()),
                connections: Quota::new(Limit::Connections, settings.connections_max.into()),
                drain: Drain::default(),
                started: Instant::now(),
                engine_reason: engines.reason,
                settings,
            };
            Ok(Self { state: Arc::new(state), listeners })
        })
    }

    /// The TCP address, with the actual port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.listeners.tcp_address()
    }

    /// A handle that drains this server.
    pub fn drainer(&self) -> Drainer {
        Drainer(self.state.clone())
    }

    /// Serves until drained, by [`Drainer::drain`] or the Admin service.
    ///
    /// Errors: see [`ServeError`].
    pub async fn serve(self) -> Result<(), ServeError> {
        self.run().await
    }

    fn run(self) -> ServeFuture<()> {
        Box::pin(async move {
            let Self { state, listeners } = self;
            let (health, health_service) = tonic_health::server::health_reporter();
            routes::report_serving(&health).await;
            let door = ConnectionLimiter {
                connections: state.connections.clone(),
                bytes_max: state.settings.connection_bytes_in_flight_max,
                jobs_max: state.settings.connection_jobs_max.into(),
                handshake_timeout: state.settings.handshake_timeout,
            };
            let routes = routes::routes(&state, health_service)?;
            let transport = routes::transport(&state.settings);
            let draining = transport.clone().max_connection_age(DRAINING_CONNECTION_AGE);
            let mut servers =
                ServerTasks { state: state.clone(), door, routes, running: JoinSet::new() };
            let serving = servers.start(transport, listeners.clone())?;
            let ticker = tokio::spawn(run_housekeeping(state.clone()));
            let ended = tokio::select! {
                grace = state.drain.wait_until_begun() => {
                    routes::not_serving(&health).await;
                    // Sends a GOAWAY on every connection. New connections are still accepted, for
                    // probes and for the rest of accepted uploads.
                    drop(serving);
                    let draining = servers.start(draining, listeners)?;
                    wait_for_calls(&state, grace).await;
                    drop(draining);
                    Ok(())
                }
                Some(ended) = servers.running.join_next() => {
                    drop(serving);
                    ended.unwrap_or(Ok(()))
                }
            };
            let _silent_connections = timeout(SHUTDOWN_LINGER, async {
                while servers.running.join_next().await.is_some() {}
            })
            .await;
            ticker.abort();
            Ok(ended?)
        })
    }
}

/// The tasks that serve connections.
struct ServerTasks {
    state: Arc<ServerState>,
    door: ConnectionLimiter,
    routes: Routes,
    running: JoinSet<Result<(), tonic::transport::Error>>,
}

impl ServerTasks {
    /// Accepts connections until the returned sender is dropped; then sends a GOAWAY on each and
    /// finishes the calls that run.
    ///
    /// Errors: `Transport` if the certificate or key is not valid.
    fn start(
        &mut self,
        transport: Transport,
        listeners: Listeners,
    ) -> Result<watch::Sender<()>, ServeError> {
        let (stop, stopped) = watch::channel(());
        let until_stopped = || {
            let mut stopped = stopped.clone();
            // `changed` fails when the sender is dropped, which is the signal.
            async move { stopped.changed().await.unwrap_or(()) }
        };
        let deadlines = DeadlineLayer { state: self.state.clone() };
        if let Some(listener) = listeners.tcp {
            let router = routes::tls(transport.clone(), &self.state.settings)?
                .layer(deadlines.clone())
                .add_routes(self.routes.clone());
            let incoming = listen::tcp(listener, self.door.clone());
            self.running.spawn(router.serve_with_incoming_shutdown(incoming, until_stopped()));
        }
        if let Some(socket) = listeners.unix {
            let router = transport.layer(deadlines).add_routes(self.routes.clone());
            let incoming = listen::unix(socket, self.door.clone());
            self.running.spawn(router.serve_with_incoming_shutdown(incoming, until_stopped()));
        }
        Ok(stop)
    }
}

/// Waits until all accepted calls have ended, for at most `grace`.
async fn wait_for_calls(state: &ServerState, grace: Duration) {
    let jobs = state.budget.jobs.used();
    tracing::info!(jobs, grace_ms = grace.as_millis() as u64, "draining");
    if timeout(grace, state.drain.wait_for_calls()).await.is_err() {
        let jobs = state.budget.jobs.used();
        tracing::warn!(jobs, "the grace period ended before all jobs did");
    }
}

/// Sets the gauges of all GPUs.
fn update_device_gauges(state: &ServerState) {
    for gpu in state.compute.engine.devices().into_iter().filter_map(|device| device.gpu) {
        telemetry::device(&gpu);
    }
}

/// Drops idle uploads and updates gauges periodically.
async fn run_housekeeping(state: Arc<ServerState>) {
    let mut interval = tokio::time::interval(HOUSEKEEPING_INTERVAL);
    for ticks in 0_u32.. {
        interval.tick().await;
        if ticks.is_multiple_of(DEVICE_GAUGE_TICKS) {
            let state = state.clone();
            tokio::task::spawn_blocking(move || update_device_gauges(&state));
        }
        let settings = &state.settings;
        let swept = state.uploads.drop_idle(settings.idle_timeout, settings.upload_ttl);
        if swept > 0 {
            tracing::info!(swept, "dropped idle uploads");
        }
        telemetry::set_queued_jobs(state.scheduler.queued() as u64);
        telemetry::in_flight(state.budget.bytes.used());
        telemetry::stored(state.bases.budget().used(), state.bases.slots().used());
        telemetry::connections(state.connections.used());
    }
}
