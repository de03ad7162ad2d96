//! Targets, TLS, and the connections of a client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::{
    Client,
    call::{CallBudget, CallFuture},
    copy_pool::CopyPool,
    error::{ClientError, Result},
};
use crate::wire::v1::{
    admin_client::AdminClient, compute_client::ComputeClient, store_client::StoreClient,
};

const MIB: u32 = 1 << 20;
/// A frame holds a chunk of 256 KiB and its envelope; larger frames are no faster.
const FRAME_BYTES: u32 = MIB / 2;
const STREAM_WINDOW_BYTES: u32 = 4 * MIB;
const CONNECTION_WINDOW_BYTES: u32 = 16 * MIB;
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Limit on one response message: 65536 G2 sums take 18 MiB.
const RESPONSE_BYTES_MAX: usize = 64 << 20;
/// Payload bytes of one message if the server denies `GetInfo`.
const MESSAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// Payload bytes of one chunk; larger chunks cost memory and are no faster.
const CHUNK_BYTES: u64 = 256 << 10;

/// State shared by the clones of a client.
pub(crate) struct Connections {
    pub target: String,
    pub channels: Vec<Channel>,
    next_channel: AtomicUsize,
    deadline: Option<Duration>,
    retries: u32,
    /// The server's limit on the payload bytes of one message.
    pub message_bytes: u64,
    pub chunk_bytes: u64,
    pub copies: CopyPool,
}

/// Configures a connection. See [`Client::builder`].
#[derive(Clone)]
pub struct ClientBuilder {
    target: String,
    connections: usize,
    ca_certificate: Option<Vec<u8>>,
    domain_name: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Duration,
    retries: u32,
}

impl ClientBuilder {
    pub(crate) fn new(target: String) -> Self {
        Self {
            target,
            connections: 4,
            ca_certificate: None,
            domain_name: None,
            deadline: None,
            connect_timeout: Duration::from_secs(5),
            retries: 3,
        }
    }

    /// Number of connections for large payloads and concurrent calls: 1 to 64, 4 by default. The
    /// first is opened by `connect`, the others on first use.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 64);
        self
    }

    /// PEM certificate of the authority that signed the server's certificate; defaults to the
    /// system's roots. Only for `https://` targets.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_certificate = Some(pem.into());
        self
    }

    /// Name in the server's certificate, if it differs from the target's host. Only for `https://`
    /// targets.
    #[must_use]
    pub fn domain_name(mut self, name: impl Into<String>) -> Self {
        self.domain_name = Some(name.into());
        self
    }

    /// Time limit of each call, retries included, unless the call's options set one. Unlimited by
    /// default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Time limit for connecting: 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often a call is retried if the server is unavailable or temporarily full: 3 by default.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Connects and reads the server's limits.
    ///
    /// Errors: `InvalidSetting` if the target or a certificate is unusable; `CannotConnect`;
    /// `InvalidResponse` if the target is not a Capstan server.
    pub async fn connect(self) -> Result<Client> {
        self.open().await
    }

    fn open(self) -> CallFuture<'static, Client> {
        Box::pin(async move {
            let endpoint = self.endpoint()?;
            let first = tokio::time::timeout(self.connect_timeout, endpoint.connect()).await;
            let first = match first {
                Ok(Ok(channel)) => channel,
                Ok(Err(error)) => return Err(self.connect_error(innermost(&error))),
                Err(_) => return Err(self.connect_error(self.timeout_text())),
            };
            let mut channels = vec![first];
            channels.resize_with(self.connections, || endpoint.connect_lazy());
            let mut inner = Connections {
                target: self.target.clone(),
                channels,
                next_channel: AtomicUsize::new(0),
                deadline: self.deadline,
                retries: self.retries,
                message_bytes: 0,
                chunk_bytes: CHUNK_BYTES,
                copies: CopyPool::default(),
            };
            inner.message_bytes = self.message_bytes(&inner).await?;
            inner.chunk_bytes = inner.chunk_bytes.min(inner.message_bytes);
            Ok(Client { inner: Arc::new(inner) })
        })
    }

    async fn message_bytes(&self, inner: &Connections) -> Result<u64> {
        let mut admin = AdminClient::new(inner.channels[0].clone());
        let call = CallBudget::new(Some(self.connect_timeout), 0);
        let info = call.response(admin.get_info(call.request(Default::default()))).await;
        match info {
            Ok(info) => match info.limits.map(|limits| limits.message_payload_bytes) {
                Some(bytes) if bytes > 0 => Ok(bytes),
                _ => Err(ClientError::invalid_response("the response has no limits")),
            },
            Err(ClientError::DeadlineExceeded) => Err(self.connect_error(self.timeout_text())),
            Err(ClientError::ConnectionLost(problem)) => Err(self.connect_error(problem)),
            Err(ClientError::Refused(refusal)) if refusal.code == Code::PermissionDenied => {
                Ok(MESSAGE_BYTES_DEFAULT)
            }
            Err(ClientError::Refused(refusal)) if refusal.reason_text.is_empty() => {
                Err(ClientError::invalid_response(refusal.message))
            }
            Err(error) => Err(error),
        }
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let target = self.target.as_str();
        if !["http://", "https://", "unix:"].iter().any(|scheme| target.starts_with(scheme)) {
            let problem = "expected http://host:port, https://host:port or unix:/path";
            return Err(self.target_error(problem));
        }
        let mut endpoint = Endpoint::from_shared(self.target.clone())
            .map_err(|error| self.target_error(innermost(&error)))?;
        if target.starts_with("https://") {
            let mut tls = ClientTlsConfig::new();
            tls = match &self.ca_certificate {
                Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
                None => tls.with_native_roots(),
            };
            if let Some(name) = &self.domain_name {
                tls = tls.domain_name(name);
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| ClientError::InvalidSetting {
                what: "certificate".into(),
                problem: innermost(&error),
            })?;
        } else if self.ca_certificate.is_some() {
            return Err(self.tls_error("CA certificate"));
        } else if self.domain_name.is_some() {
            return Err(self.tls_error("domain name"));
        }
        Ok(endpoint
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .connect_timeout(self.connect_timeout)
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE))
    }

    fn target_error(&self, problem: impl Into<String>) -> ClientError {
        ClientError::InvalidSetting {
            what: format!("target {:?}", self.target),
            problem: problem.into(),
        }
    }

    fn tls_error(&self, what: &str) -> ClientError {
        let problem = format!("target {:?} does not use TLS: use https://host:port", self.target);
        ClientError::InvalidSetting { what: what.into(), problem }
    }

    fn connect_error(&self, problem: String) -> ClientError {
        ClientError::CannotConnect { target: self.target.clone(), problem }
    }

    fn timeout_text(&self) -> String {
        format!("no response within {} ms", self.connect_timeout.as_millis())
    }
}

/// The innermost source of an error: the outer ones only say "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

impl Client {
    /// Begins a call; its deadline counts from now.
    pub(crate) fn begin_call(&self, deadline: Option<Duration>) -> CallBudget {
        CallBudget::new(deadline.or(self.inner.deadline), self.inner.retries)
    }

    /// Returns the next connection, round robin.
    fn any_channel(&self) -> Channel {
        let turn = self.inner.next_channel.fetch_add(1, Ordering::Relaxed);
        self.channel(turn)
    }

    fn channel(&self, turn: usize) -> Channel {
        self.inner.channels[turn % self.inner.channels.len()].clone()
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.any_channel())
    }

    pub(crate) fn compute(&self) -> ComputeClient<Channel> {
        ComputeClient::new(self.any_channel()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn store(&self) -> StoreClient<Channel> {
        StoreClient::new(self.any_channel()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// A client on connection `lane`, for payloads that are spread over several connections.
    pub(crate) fn store_on(&self, lane: usize) -> StoreClient<Channel> {
        StoreClient::new(self.channel(lane)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn compute_on(&self, lane: usize) -> ComputeClient<Channel> {
        ComputeClient::new(self.channel(lane)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// Number of connections for a payload of `bytes`: one per 2 MiB, because below that another
    /// connection costs more than it gains.
    pub(crate) fn lane_count(&self, bytes: u64) -> usize {
        let worth = usize::try_from(bytes >> 21).unwrap_or(usize::MAX);
        worth.clamp(1, self.inner.channels.len())
    }
}
