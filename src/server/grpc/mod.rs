//! The gRPC service: listeners, limits, handlers. The only module that uses tonic's server side.
//!
//! A timer limits the shutdown: hyper can wait for a silent connection for ever (hyper issue 4170).

mod callers;
mod calls;
mod computing;
mod connections;
mod devices;
mod drain;
mod heap;
mod housekeeping;
mod objects;
mod operators;
mod requests;
mod responses;
mod routes;
mod serve_error;
mod state;

use std::{net::SocketAddr, sync::Arc, time::Duration};

#[doc(hidden)]
pub use crate::region::outlive_signals;
pub use crate::settings::{AuthSettings, JwtSettings, ProxySettings, ServerSettings, TlsFiles};
pub use crate::store::DataDirError;
pub use crate::worker::{
    NoWorkers, SpreadPolicy, WorkerCommand, WorkerPoolSettings, WorkerSettings, has_landlock,
    serve as serve_worker,
};
pub use callers::credentials::{CredentialFileProblems, check_credential_files};
pub use callers::reload::CredentialFileError;
#[doc(hidden)]
pub use connections::header_blocks::{HeaderBlockLimit, ReceivedBlocks};
pub use connections::metrics_certificate::MetricsCertificate;
#[doc(hidden)]
pub use connections::tls::CERTIFICATE_VALIDITY_MIN;
pub use devices::preload_file::{PreloadFileError, check_preload_file};
use futures_util::future::BoxFuture;
pub use objects::loading::Readiness;
pub use operators::status_report::StatusReporter;
pub use serve_error::ServeError;
pub use state::Engines;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tonic::{service::Routes, transport::Server as Transport};
use tonic_health::ServingStatus;
use tower::layer::layer_fn;

use self::{
    callers::authenticate::AuthenticationService,
    calls::{deadline::DeadlineService, request_id::RequestIdService},
    connections::{connection::PeerOrigin, listen::Listeners},
    state::ServerState,
};

/// Time for the last responses to leave their sockets: hyper can wait forever for a silent
/// connection (hyper issue 4170).
const SHUTDOWN_LINGER: Duration = Duration::from_secs(1);

/// Lifetime of a connection that is opened during a drain. Less than `DRAINING_RETRY` of `status`,
/// so that a client repeats a refused call over another connection.
const DRAINING_CONNECTION_AGE: Duration = Duration::from_millis(500);

/// A boxed future. Every crate that awaits an async function compiles its body: boxing keeps the
/// server out of its callers' builds.
type ServeFuture<T> = BoxFuture<'static, Result<T, ServeError>>;

/// The sockets of a server that has no engines yet. Peers can connect, and wait until it serves.
pub struct ListeningSockets {
    settings: ServerSettings,
    listeners: Listeners,
}

impl ListeningSockets {
    /// Listens.
    ///
    /// Errors: `Exposed`, `Listen`.
    pub fn bind(settings: ServerSettings) -> ServeFuture<Self> {
        Box::pin(async move {
            if settings.is_exposed() {
                return Err(ServeError::Exposed);
            }
            let listeners = Listeners::bind(&settings).await.map_err(ServeError::Listen)?;
            Ok(Self { settings, listeners })
        })
    }

    /// The TCP address, with the actual port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.listeners.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Starts the workers, and begins to load the data directory.
    ///
    /// Errors: see [`ServeError`].
    pub fn start(self, engines: Engines) -> Result<Server, ServeError> {
        let Self { settings, listeners } = self;
        let state = Arc::new(ServerState::new(settings, engines)?);
        objects::loading::start(&state).map_err(ServeError::Thread)?;
        objects::object_checks::start(&state).map_err(ServeError::Thread)?;
        Ok(Server { state, listeners })
    }
}

/// A server that is bound to its addresses but does not serve yet.
pub struct Server {
    state: Arc<ServerState>,
    listeners: Listeners,
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

/// A handle that makes a server read its certificates, tokens and keys again.
#[derive(Clone)]
pub struct Reloader(Arc<ServerState>);

impl Reloader {
    /// Reads the files while the server goes on. A file that cannot be used is logged as an error,
    /// and what was read before stays in use. Open connections keep their certificates.
    pub fn reload(&self) {
        self.0.credentials.request_reload();
    }
}

impl Server {
    /// Listens, starts the workers, and begins to load the data directory.
    ///
    /// Errors: see [`ServeError`].
    pub fn bind(settings: ServerSettings, engines: Engines) -> ServeFuture<Self> {
        Box::pin(async move { ListeningSockets::bind(settings).await?.start(engines) })
    }

    /// The TCP address, with the actual port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.listeners.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// A handle that drains this server.
    pub fn drainer(&self) -> Drainer {
        Drainer(self.state.clone())
    }

    /// A handle that makes this server read its files of credentials again.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.state.clone())
    }

    /// A handle that tells whether this server is ready.
    pub fn readiness(&self) -> Readiness {
        Readiness { state: self.state.clone() }
    }

    /// A handle that reports this server's status. `gpus_min` GPUs must serve for it to be ready.
    pub fn status_reporter(&self, gpus_min: u32) -> StatusReporter {
        StatusReporter { readiness: self.readiness(), gpus_min }
    }

    /// Serves until drained, by [`Drainer::drain`] or the Admin service.
    ///
    /// Errors: see [`ServeError`].
    pub fn serve(self) -> ServeFuture<()> {
        Box::pin(async move {
            let Self { state, listeners } = self;
            let (health, health_service) = operators::health::health_checks();
            let is_loaded = *state.is_loaded.borrow();
            let status = if is_loaded { ServingStatus::Serving } else { ServingStatus::NotServing };
            routes::report(&health, status).await;
            let mut servers = ServerTasks {
                state: state.clone(),
                admin_routes: routes::admin_routes(&state, health_service.clone()),
                routes: routes::routes(&state, health_service)?,
                running: JoinSet::new(),
            };
            let transport = routes::transport(&state.settings);
            let draining = transport.clone().max_connection_age(DRAINING_CONNECTION_AGE);
            let serving = servers.start(transport, listeners.clone())?;
            let housekeeping = tokio::spawn(housekeeping::run(state.clone()));
            let reloads = tokio::spawn(state.credentials.clone().watch());
            let regions = listeners.regions.clone();
            let regions =
                regions.map(|socket| tokio::spawn(objects::regions::serve(socket, state.clone())));
            let report_loaded = async {
                objects::loading::wait(&state).await;
                routes::report(&health, ServingStatus::Serving).await;
                std::future::pending::<std::convert::Infallible>().await
            };
            let ended = tokio::select! {
                grace = state.drain.wait_until_begun() => {
                    routes::report(&health, ServingStatus::NotServing).await;
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
                    state.drain.begin(Duration::ZERO);
                    ended.unwrap_or(Ok(()))
                }
                never = report_loaded => match never {},
            };
            let _silent_connections = timeout(SHUTDOWN_LINGER, async {
                while servers.running.join_next().await.is_some() {}
                // It stops after the file that it reads, and lets the next server lock the folder.
                objects::loading::wait(&state).await;
            })
            .await;
            housekeeping.abort();
            reloads.abort();
            regions.inspect(tokio::task::JoinHandle::abort);
            // The next server takes its memory from what is free.
            let executor = state.compute.executor.clone();
            let _closed = spawn_blocking(move || executor.close()).await;
            Ok(ended?)
        })
    }
}

struct ServerTasks {
    state: Arc<ServerState>,
    routes: Routes,
    admin_routes: Routes,
    running: JoinSet<Result<(), tonic::transport::Error>>,
}

impl ServerTasks {
    /// Accepts connections until the returned sender is dropped; then sends a GOAWAY on each and
    /// finishes the calls that run.
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
        let state = self.state.clone();
        let authentication =
            layer_fn(move |inner| AuthenticationService { inner, state: state.clone() });
        let state = self.state.clone();
        let deadlines = layer_fn(move |inner| DeadlineService { inner, state: state.clone() });
        let ids = layer_fn(|inner| RequestIdService { inner });
        let router = |routes: &Routes| {
            let transport = transport.clone().layer(ids).layer(authentication.clone());
            transport.layer(deadlines.clone()).add_routes(routes.clone())
        };
        if let Some(listener) = listeners.tcp {
            let incoming = connections::listen::tcp(listener, self.state.clone());
            if self.state.credentials.tls().is_some() {
                let incoming = connections::handshake::tls(incoming, self.state.clone());
                let served =
                    router(&self.routes).serve_with_incoming_shutdown(incoming, until_stopped());
                self.running.spawn(served);
            } else {
                let served =
                    router(&self.routes).serve_with_incoming_shutdown(incoming, until_stopped());
                self.running.spawn(served);
            }
        }
        if let Some(socket) = listeners.unix {
            let origin = |user| PeerOrigin::Unix { user };
            let incoming = connections::listen::unix(socket, self.state.clone(), origin);
            let served = router(&self.routes);
            self.running.spawn(served.serve_with_incoming_shutdown(incoming, until_stopped()));
        }
        if let Some(socket) = listeners.admin {
            let origin = |user| PeerOrigin::Admin { user };
            let incoming = connections::listen::unix(socket, self.state.clone(), origin);
            let served = router(&self.admin_routes);
            self.running.spawn(served.serve_with_incoming_shutdown(incoming, until_stopped()));
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
