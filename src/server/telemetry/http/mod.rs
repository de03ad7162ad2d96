//! Serves metrics, liveness, readiness and the status page by HTTP/1.1, over TLS if asked to.
//! Callers need not be trusted: connections, their time and their headers are limited.
//!
//! The listener for metrics reads the certificate, too, because it serves before the gRPC listener
//! exists.

mod connections;
mod handshake_turns;
mod plain_text;
mod status_page;

use std::{
    convert::Infallible,
    io,
    net::IpAddr,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::{self, Handle},
    task::{spawn_blocking, yield_now},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

pub use self::status_page::{StatusAnswer, StatusSource};
use self::{connections::OpenConnections, handshake_turns::HandshakeTurns, plain_text::text};
use super::LogThrottle;

/// Time for a TLS handshake, and again to receive the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a connection, which serves one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Connections that wait to be accepted. A flood fills the 128 of the standard library, and then a
/// probe is delayed by a second.
const BACKLOG: i32 = 1024;

/// Pause after a failed accept (no file descriptors, for example): the loop must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The interval at which histograms take in what was recorded since.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Time for the runtime of gRPC to run a task that does nothing.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which the certificate's files are compared.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(1);

/// Says why the process is not ready for work.
pub type ReadinessCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The TLS of the listener for metrics.
pub trait MetricsTls: Send + Sync {
    /// Accepts connections with the current certificate.
    fn acceptor(&self) -> TlsAcceptor;

    /// Reads the certificate's files again if they have changed. May block.
    fn reload_if_changed(&self);
}

/// What the listener serves.
#[derive(Clone)]
pub(super) struct Endpoints {
    pub metrics: PrometheusHandle,
    /// Sets the metrics that are read when they are asked for.
    pub before_scrape: fn(),
    pub readiness: ReadinessCheck,
    pub status: StatusSource,
    /// The runtime of gRPC, once it has started.
    pub served_by: Arc<OnceLock<Handle>>,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<dyn MetricsTls>>,
}

/// Serves from a thread.
pub(super) fn start(listener: std::net::TcpListener, endpoints: Endpoints) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => serve(listener, endpoints).await,
                Err(error) => tracing::error!(%error, "metrics are not served"),
            }
        });
    };
    thread::Builder::new().name("capstan-metrics".into()).spawn(run).map(drop)
}

async fn serve(listener: TcpListener, endpoints: Endpoints) {
    static REFUSED: LogThrottle = LogThrottle::new();
    tokio::spawn(run_upkeep(endpoints.metrics.clone()));
    if let Some(tls) = endpoints.tls.clone() {
        tokio::spawn(watch_certificate(tls));
    }
    let mut connections = OpenConnections::default();
    let turns = Arc::new(HandshakeTurns::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.ended() => continue,
        };
        match accepted {
            Ok((socket, address)) => {
                let (endpoints, turns) = (endpoints.clone(), turns.clone());
                connections.add(address.ip(), async move {
                    let served = serve_one(socket, address.ip(), endpoints, &turns);
                    // A peer that is too slow or sends no HTTP is disconnected.
                    let _ended = timeout(CONNECTION_TIMEOUT, served).await;
                });
                // A replaced connection closes before the next one is accepted.
                yield_now().await;
            }
            Err(error) => {
                if let Some(suppressed) = REFUSED.pass() {
                    tracing::warn!(%error, suppressed, "cannot accept a connection for metrics");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn run_upkeep(metrics: PrometheusHandle) {
    let mut upkeep = interval(UPKEEP_INTERVAL);
    loop {
        upkeep.tick().await;
        metrics.run_upkeep();
    }
}

/// On a thread of the pool: a file system that hangs must not stop probes.
async fn watch_certificate(tls: Arc<dyn MetricsTls>) {
    let mut comparisons = interval(CERTIFICATE_INTERVAL);
    comparisons.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        comparisons.tick().await;
        let tls = tls.clone();
        // Fails only if the runtime ends.
        let _ended = spawn_blocking(move || tls.reload_if_changed()).await;
    }
}

/// Completes the TLS handshake, if there is one, and answers one request.
async fn serve_one(socket: TcpStream, peer: IpAddr, endpoints: Endpoints, turns: &HandshakeTurns) {
    let Some(tls) = &endpoints.tls else {
        return answer_one(socket, status_page::is_private(peer, false), &endpoints).await;
    };
    let handshake = turns.complete(tls.acceptor().accept(socket));
    match timeout(HEAD_TIMEOUT, handshake).await {
        Ok(Ok(socket)) => answer_one(socket, status_page::is_private(peer, true), &endpoints).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake for metrics failed"),
        Err(_) => tracing::debug!("a TLS handshake for metrics took too long"),
    }
}

/// `is_private`: nobody on the way can read a token.
async fn answer_one(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    is_private: bool,
    endpoints: &Endpoints,
) {
    let answer = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(answer(&request, is_private, endpoints).await)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), answer);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection for metrics failed");
    }
}

/// Whether a runtime runs a task within a time, or has yet to start.
async fn is_alive(runtime: Option<&Handle>, limit: Duration) -> bool {
    let Some(runtime) = runtime else { return true };
    timeout(limit, runtime.spawn(async {})).await.is_ok_and(|ended| ended.is_ok())
}

async fn answer(
    request: &Request<Incoming>,
    is_private: bool,
    endpoints: &Endpoints,
) -> Response<Full<Bytes>> {
    const METRICS_TYPE: &str = "text/plain; version=0.0.4";
    let (method, path) = (request.method(), request.uri().path());
    if method != Method::GET && method != Method::HEAD {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "use GET");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match path {
        "/metrics" => {
            (endpoints.before_scrape)();
            let mut metrics = text(StatusCode::OK, endpoints.metrics.render());
            let headers = metrics.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
            metrics
        }
        "/healthz" => match is_alive(endpoints.served_by.get(), LIVENESS_TIMEOUT).await {
            true => text(StatusCode::OK, "alive"),
            false => text(StatusCode::SERVICE_UNAVAILABLE, "gRPC's runtime does not run tasks"),
        },
        "/readyz" => match (endpoints.readiness)() {
            Ok(()) => text(StatusCode::OK, "ready"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
        },
        "/status.json" => {
            status_page::report(request.headers(), is_private, &endpoints.status).await
        }
        _ => match status_page::file(path) {
            Some(file) => file,
            None => text(StatusCode::NOT_FOUND, "serves /status, /metrics, /healthz and /readyz"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_runs_no_task_is_not_alive() {
        let asking = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let runs = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        // Nobody drives it.
        let stands_still = runtime::Builder::new_current_thread().build().unwrap();
        let is_alive = |runtime: Option<&Handle>, limit| asking.block_on(is_alive(runtime, limit));
        assert!(is_alive(None, Duration::ZERO));
        assert!(is_alive(Some(runs.handle()), Duration::from_secs(60)));
        assert!(!is_alive(Some(stands_still.handle()), Duration::from_millis(10)));
    }
}
