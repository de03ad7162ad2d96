//! A server in this process for tests that speak the wire by hand: how to start it, how to reach
//! it, and how to write its messages.
#![allow(dead_code)] // no test binary needs everything

pub mod engine;
pub mod say;

use std::{fmt::Debug, net::SocketAddr, path::Path, sync::mpsc, thread, time::Duration};

use capstan::{
    server::{Drainer, Engines, ServeError, Server, Settings},
    wire::v1::{
        self, admin_client::AdminClient, compute_client::ComputeClient, store_client::StoreClient,
    },
};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

/// Longer than anything here takes; only against hanging.
pub const HANGING: Duration = Duration::from_secs(30);

/// A limit that no test reaches, however long its threads are kept from running.
pub const NEVER: Duration = Duration::from_secs(3600);

/// A server on threads of its own.
pub struct Daemon {
    pub address: SocketAddr,
    pub drainer: Drainer,
    thread: Option<thread::JoinHandle<Result<(), ServeError>>>,
}

impl Daemon {
    /// A server on a free port, with an honest engine of two threads.
    pub fn start(settings: Settings) -> Self {
        Self::with_engines(settings, Engines::cpu(2, "asked for").expect("threads"))
    }

    /// A server on a free port.
    pub fn with_engines(settings: Settings, engines: Engines) -> Self {
        Self::try_start(settings, engines).expect("a server")
    }

    /// A server on a free port, if it can be had.
    pub fn try_start(settings: Settings, engines: Engines) -> Result<Self, ServeError> {
        let settings = Settings { listen: Some(([127, 0, 0, 1], 0).into()), ..settings };
        let (told, listening) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("threads for a server");
            runtime.block_on(async {
                let server = match Server::bind(settings, engines).await {
                    Ok(server) => server,
                    Err(error) => {
                        told.send(Err(error)).expect("somebody waits");
                        return Ok(());
                    }
                };
                let address = server.tcp_address().expect("listens on TCP");
                told.send(Ok((address, server.drainer()))).expect("somebody waits");
                server.serve().await
            })
        });
        let (address, drainer) = listening.recv().expect("the thread says something")?;
        Ok(Self { address, drainer, thread: Some(thread) })
    }

    /// A new connection, which the server has taken and heard: to be connected says neither. One
    /// that spoke too late for the server's limits is made again.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.expect("an address");
        until("a connection", async || {
            let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
            let heard = admin(&channel).get_info(v1::GetInfoRequest {}).await;
            heard.map(|_| channel).map_err(|status| status.to_string())
        })
        .await
    }

    /// Waits until the server has ended by itself.
    pub async fn ended(mut self) -> Result<(), ServeError> {
        let thread = self.thread.take().expect("asked once");
        let look = async || if thread.is_finished() { Ok(()) } else { Err("it serves") };
        until("the server ends", look).await;
        thread.join().expect("the server does not panic")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.drainer.drain(Some(Duration::ZERO));
        // A test that has failed waits for nothing: what it left undone may hold the server.
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().expect("the server does not panic").expect("the server ends well");
        }
    }
}

/// A new connection to a Unix socket.
pub async fn unix_channel(path: &Path) -> Channel {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.expect("the server accepts")
}

/// A client that keeps no time itself, and its origin: tonic's own would answer in the server's
/// place when a deadline passes.
pub fn timeless(
    address: SocketAddr,
) -> (legacy::Client<HttpConnector, tonic::body::Body>, http::Uri) {
    let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    (client, format!("http://{address}").parse().expect("an address"))
}

pub fn compute(channel: &Channel) -> ComputeClient<Channel> {
    ComputeClient::new(channel.clone()).max_decoding_message_size(64 << 20)
}

pub fn store(channel: &Channel) -> StoreClient<Channel> {
    StoreClient::new(channel.clone()).max_decoding_message_size(64 << 20)
}

pub fn admin(channel: &Channel) -> AdminClient<Channel> {
    AdminClient::new(channel.clone())
}

/// Asks until there is an `Ok`. Fails where there never is one, with the last thing that there was.
pub async fn until<T, E: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut last = None;
    let asking = async {
        loop {
            match ask().await {
                Ok(there) => return there,
                Err(instead) => last = Some(instead),
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = timeout(HANGING, asking).await;
    asked.unwrap_or_else(|_| panic!("{what}: not after {HANGING:?}, but {last:?}"))
}

/// What comes of a call that should work whoever makes it. A client that is stalled between the
/// headers of a call and its message is cut off where the idle limit is short: it calls again.
pub async fn patiently<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    let heard = async || match call().await {
        Err(status) if reason(&status) == "IDLE" => Err(status),
        answer => Ok(answer),
    };
    until("a call that is heard", heard).await
}

/// What is in use on the server.
pub async fn load(channel: &Channel) -> v1::Load {
    let info = patiently(async || admin(channel).get_info(v1::GetInfoRequest {}).await).await;
    info.expect("answers").into_inner().load.expect("always said")
}

/// Waits until what is in use on the server is so.
pub async fn until_load(channel: &Channel, name: &str, so: impl Fn(&v1::Load) -> bool) {
    let look = async || {
        let load = load(channel).await;
        if so(&load) { Ok(()) } else { Err(load) }
    };
    until(name, look).await;
}

/// Waits until nothing is in flight.
pub async fn settled(channel: &Channel, name: &str) {
    until_load(channel, name, |load| load.bytes_in_flight == 0 && load.jobs == 0).await;
}

/// `ErrorInfo.reason`.
pub fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// When the server wants to be asked again.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}
