//! A server in this process, for tests that build wire messages by hand: starts it, connects to it
//! and writes its messages.
#![allow(dead_code)] // no test binary uses all of it

pub mod faulty_engine;
pub mod messages;
pub mod programs;
pub mod regions;

use std::{fmt::Debug, net::SocketAddr, path::Path, sync::mpsc, thread, time::Duration};

use capstan::{
    server::{Drainer, Engines, Reloader, ServeError, Server, ServerSettings},
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

/// A timeout longer than any wait in these tests, so that a hang fails the test.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A limit that no test reaches, even on an overloaded machine.
pub const UNREACHED_LIMIT: Duration = Duration::from_secs(3600);

/// A server that runs on its own threads.
pub struct TestServer {
    pub address: SocketAddr,
    pub drainer: Drainer,
    pub reloader: Reloader,
    thread: Option<thread::JoinHandle<Result<(), ServeError>>>,
}

impl TestServer {
    /// Starts a server on a free port, with the CPU engine on two threads.
    pub fn start(settings: ServerSettings) -> Self {
        Self::with_engines(settings, Engines::cpu(2, "asked for").expect("threads"))
    }

    /// Starts a server on a free port.
    pub fn with_engines(settings: ServerSettings, engines: Engines) -> Self {
        Self::try_start(settings, engines).expect("a server")
    }

    /// Starts a server on a free port, or returns why it could not start.
    pub fn try_start(settings: ServerSettings, engines: Engines) -> Result<Self, ServeError> {
        let settings = ServerSettings { listen: Some(([127, 0, 0, 1], 0).into()), ..settings };
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
                        told.send(Err(error)).expect("the receiver waits");
                        return Ok(());
                    }
                };
                let address = server.tcp_address().expect("listens on TCP");
                let handles = (address, server.drainer(), server.reloader());
                told.send(Ok(handles)).expect("the receiver waits");
                server.serve().await
            })
        });
        let started = listening.recv().expect("the thread reports its start");
        let (address, drainer, reloader) = started?;
        Ok(Self { address, drainer, reloader, thread: Some(thread) })
    }

    /// Opens a new connection and makes a call on it, so that the server is known to have accepted
    /// it. Reconnects if the server closed the connection because the call came too late.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.expect("an address");
        retry_until_ok("connect", async || {
            let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
            let heard = admin(&channel).get_info(v1::GetInfoRequest {}).await;
            heard.map(|_| channel).map_err(|status| status.to_string())
        })
        .await
    }

    /// Waits until the server has ended on its own.
    pub async fn ended(mut self) -> Result<(), ServeError> {
        let thread = self.thread.take().expect("called once");
        let look = async || if thread.is_finished() { Ok(()) } else { Err("still serving") };
        retry_until_ok("end the server", look).await;
        thread.join().expect("the server does not panic")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.drainer.drain(Some(Duration::ZERO));
        // Do not wait if the test has failed: work that it left behind may keep the server alive.
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().expect("the server does not panic").expect("the server ends cleanly");
        }
    }
}

/// Opens a connection to a Unix socket.
pub async fn unix_channel(path: &Path) -> Channel {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.expect("the server accepts")
}

/// An HTTP client that sets no deadlines, and the server's origin. tonic's client would
/// answer in the server's place when a deadline passes.
pub fn client_without_deadlines(
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

/// Calls `ask` until it returns `Ok`. Panics with the last error after [`TEST_TIMEOUT`].
pub async fn retry_until_ok<T, E: Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut last = None;
    let asking = async {
        loop {
            match ask().await {
                Ok(value) => return value,
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = timeout(TEST_TIMEOUT, asking).await;
    asked
        .unwrap_or_else(|_| panic!("{what}: not done after {TEST_TIMEOUT:?}; last error: {last:?}"))
}

/// Makes a call, and repeats it while the server answers `IDLE`: with a short idle limit, the
/// server cuts off a client that stalls between the headers of a call and its message.
pub async fn retry_idle<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    let heard = async || match call().await {
        Err(status) if reason(&status) == "IDLE" => Err(status),
        answer => Ok(answer),
    };
    retry_until_ok("make a call before the idle limit", heard).await
}

/// The server's load.
pub async fn load(channel: &Channel) -> v1::Load {
    let info = retry_idle(async || admin(channel).get_info(v1::GetInfoRequest {}).await).await;
    info.expect("answers").into_inner().load.expect("always reported")
}

/// Waits until the server's load satisfies `so`.
pub async fn until_load(channel: &Channel, name: &str, so: impl Fn(&v1::Load) -> bool) {
    let look = async || {
        let load = load(channel).await;
        if so(&load) { Ok(()) } else { Err(load) }
    };
    retry_until_ok(name, look).await;
}

/// Waits until the server has no jobs and no bytes in flight.
pub async fn until_idle(channel: &Channel, name: &str) {
    until_load(channel, name, |load| load.bytes_in_flight == 0 && load.jobs == 0).await;
}

/// The status's `ErrorInfo.reason`, or an empty string.
pub fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// The retry delay that the server asks for.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}
