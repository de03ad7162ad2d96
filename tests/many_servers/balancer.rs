//! A balancer that chooses a server for each call, and records the calls.

use std::{
    convert::Infallible,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Status,
    body::Body,
    server::NamedService,
    transport::{Channel, Endpoint, Server},
};
use tower::{Service, ServiceExt};

use crate::many_servers::daemon_process::DaemonProcess;

const WINDOW_BYTES: u32 = 1 << 20;

/// How the balancer chooses a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By the metadata `capstan-affinity`; calls without it in turn.
    ByKey,
    /// In turn, whatever the metadata says.
    InTurn,
}

/// A call that has passed the balancer.
#[derive(Clone, Debug)]
pub struct SeenCall {
    pub path: String,
    pub headers: HeaderMap,
}

impl SeenCall {
    pub fn affinity(&self) -> Option<&str> {
        self.headers.get("capstan-affinity").map(|value| value.to_str().unwrap())
    }
}

pub struct CallBalancer {
    pub target: String,
    shared: Arc<Shared>,
}

struct Shared {
    choice: Choice,
    servers: Mutex<Vec<Channel>>,
    next: AtomicUsize,
    seen: Mutex<Vec<SeenCall>>,
}

macro_rules! forwarded {
    ($($service:ident $name:literal)+) => { $(
        #[derive(Clone)]
        struct $service(Arc<Shared>);

        impl NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl Service<Request<Body>> for $service {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<Body>) -> Self::Future {
                self.0.forward(request)
            }
        }
    )+ };
}

forwarded! {
    ForwardedAdmin "capstan.v1.Admin"
    ForwardedCompute "capstan.v1.Compute"
    ForwardedStore "capstan.v1.Store"
}

impl Shared {
    fn forward(
        &self,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
        let call = SeenCall { path, headers };
        let server = self.choose(call.affinity());
        self.seen.lock().unwrap().push(call);
        Box::pin(async move {
            let answer = async { server.ready_oneshot().await?.call(request).await };
            let lost = |_| Status::unavailable("the server is lost").into_http();
            Ok(answer.await.unwrap_or_else(lost))
        })
    }

    fn choose(&self, key: Option<&str>) -> Channel {
        let servers = self.servers.lock().unwrap();
        let number = match key.filter(|_| self.choice == Choice::ByKey) {
            Some(key) => {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                hasher.finish() as usize
            }
            None => self.next.fetch_add(1, Ordering::Relaxed),
        };
        servers[number % servers.len()].clone()
    }
}

fn channels<'a>(daemons: impl IntoIterator<Item = &'a DaemonProcess>) -> Vec<Channel> {
    let endpoint = |daemon: &DaemonProcess| Endpoint::from_shared(daemon.target()).unwrap();
    daemons.into_iter().map(|daemon| endpoint(daemon).connect_lazy()).collect()
}

impl CallBalancer {
    pub async fn start<'a>(
        choice: Choice,
        daemons: impl IntoIterator<Item = &'a DaemonProcess>,
    ) -> Self {
        let servers = Mutex::new(channels(daemons));
        let (next, seen) = Default::default();
        let shared = Arc::new(Shared { choice, servers, next, seen });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap());
        let serving = Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .add_service(ForwardedAdmin(shared.clone()))
            .add_service(ForwardedCompute(shared.clone()))
            .add_service(ForwardedStore(shared.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        Self { target, shared }
    }

    /// Chooses among these servers from now on.
    pub fn choose_among<'a>(&self, daemons: impl IntoIterator<Item = &'a DaemonProcess>) {
        *self.shared.servers.lock().unwrap() = channels(daemons);
    }

    /// The calls since the last time.
    pub fn take_seen(&self) -> Vec<SeenCall> {
        std::mem::take(&mut *self.shared.seen.lock().unwrap())
    }
}
