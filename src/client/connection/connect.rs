//! Connects to a target, with TLS if the target uses it.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::timeout;
use tonic::{Code, transport::Endpoint};
use tower::service_fn;
use zeroize::Zeroizing;

use super::{
    affinity::{AffinityKey, CallRoute, VectorKeys},
    connect_cause::{ConnectCause, is_timeout},
    connections::{Client, Connections},
    credentials::{ClientCertificate, ClientCredentials},
    priority::Priority,
    same_server::SameServer,
    tcp::{self, KEEPALIVE},
};
use crate::wire::v1::{self, admin_client::AdminClient, store_client::StoreClient};
use crate::{
    call::{CallDeadline, CallFuture},
    error::{ClientError, Result, innermost},
    staging::StagingPool,
    transfer::{copy_pool::CopyPool, frames::FrameChannel, payload::SpareChunks},
};

const MIB: u32 = 1 << 20;
/// A frame holds a chunk and its envelope; larger ones are no faster
/// (`benches/experiments/transport.md`). The windows are not tuned.
const FRAME_BYTES: u32 = MIB / 2;
const STREAM_WINDOW_BYTES: u32 = 4 * MIB;
const CONNECTION_WINDOW_BYTES: u32 = 16 * MIB;
/// Payload bytes of one message if the server denies `GetInfo`.
const MESSAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// Payload bytes of one chunk; larger ones are no faster (`benches/experiments/transport.md`).
const CHUNK_BYTES: u64 = 256 << 10;

/// Configures a connection. See [`Client::builder`].
#[derive(Clone)]
pub struct ClientBuilder {
    target: String,
    connections: usize,
    ca_certificate: Option<Vec<u8>>,
    domain_name: Option<String>,
    credentials: ClientCredentials,
    priority: Priority,
    affinity: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Duration,
    retries: u32,
    shared_memory: bool,
    is_of_fleet: bool,
}

/// What a server says of its limits.
struct ServerLimits {
    /// Payload bytes of one message.
    message_bytes: u64,
    /// Bytes of all regions; 0 if the server shares no memory.
    region_bytes: u64,
}

impl Client {
    /// Connects to `http://host:port`, `https://host:port` or `unix:/path` with default settings.
    ///
    /// Errors: `InvalidSetting`, `CannotConnect`.
    pub async fn connect(target: impl Into<String>) -> Result<Self> {
        Self::builder(target).connect().await
    }

    /// Returns a builder that configures the connection.
    pub fn builder(target: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            target: target.into(),
            connections: 4,
            ca_certificate: None,
            domain_name: None,
            credentials: ClientCredentials::default(),
            priority: Priority::default(),
            affinity: None,
            deadline: None,
            connect_timeout: Duration::from_secs(5),
            retries: 3,
            shared_memory: true,
            is_of_fleet: false,
        }
    }
}

impl ClientBuilder {
    /// Number of connections for large payloads and concurrent calls: 1 to 64, 4 by default. Behind
    /// a load balancer, those that reach another server than the first one are not used.
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

    /// Bearer token, which is sent with every call: of the server's token file, or a JSON Web
    /// Token. It is not sent in plain text to another host; see [`Self::allow_plaintext_token`].
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials.token = Some(Zeroizing::new(token.into()));
        self
    }

    /// Allows the token to be sent to other hosts over `http://`, where everyone on the way can
    /// read it: for a trusted network, or one that encrypts. False by default.
    #[must_use]
    pub fn allow_plaintext_token(mut self, is_allowed: bool) -> Self {
        self.credentials.allow_plaintext_token = is_allowed;
        self
    }

    /// PEM certificate chain, leaf first, and PEM key that the client proves its identity with.
    /// Only for `https://` targets.
    #[must_use]
    pub fn client_certificate(
        mut self,
        chain_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        let (chain_pem, key_pem) = (chain_pem.into(), Zeroizing::new(key_pem.into()));
        self.credentials.certificate = Some(ClientCertificate { chain_pem, key_pem });
        self
    }

    /// How urgent the calls are among those of the client's tenant.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sends the metadata `capstan-affinity: NAME` with every call; see [`Client::with_affinity`].
    #[must_use]
    pub fn affinity(mut self, name: impl Into<String>) -> Self {
        self.affinity = Some(name.into());
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

    /// Whether large payloads may travel through memory that the server shares, instead of
    /// messages: true by default. A server shares memory only over its Unix socket. Sharing is slow
    /// to set up, so it starts with the third large payload. While the runtime runs, the client
    /// wipes what no payload has overwritten within about 200 ms, and returns memory that it has
    /// not used for 10 s.
    #[must_use]
    pub fn shared_memory(mut self, is_allowed: bool) -> Self {
        self.shared_memory = is_allowed;
        self
    }

    /// For a client whose calls can move to other servers.
    pub(crate) fn for_fleet(mut self) -> Self {
        self.is_of_fleet = true;
        self
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn timeout_of_connecting(&self) -> Duration {
        self.connect_timeout
    }

    /// The same settings for an address of `host`.
    pub(crate) fn at(mut self, target: String, host: &str) -> Self {
        if target.starts_with("https://") && self.domain_name.is_none() {
            self.domain_name = Some(host.to_owned());
        }
        self.target = target;
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
            let authorization = self.credentials.authorization(&self.target)?;
            let priority = self.priority;
            let affinity = self.affinity.as_deref().map(AffinityKey::named).transpose()?;
            let own_key = || affinity.clone().map_or_else(AffinityKey::random, Ok);
            let key = CallRoute::from(own_key()?);
            let server = Arc::new(SameServer::new(self.connections, key));
            let frames = |number, channel| {
                let (authorization, server) = (authorization.clone(), server.clone());
                let route = server.key().clone();
                FrameChannel { channel, authorization, priority, number, server, route }
            };
            let limit = self.connect_timeout;
            // tonic's connector is silent for seconds if the first of several addresses is.
            let connector = service_fn(move |target| tcp::connect(target, limit));
            let is_unix = self.target.starts_with("unix:");
            let connecting = async {
                match is_unix {
                    true => endpoint.connect().await,
                    false => endpoint.connect_with_connector(connector).await,
                }
            };
            let first = match timeout(limit, connecting).await {
                Ok(Ok(channel)) => frames(0, channel),
                Ok(Err(error)) => {
                    if is_timeout(&error) {
                        return Err(self.timeout_error());
                    }
                    let cause = ConnectCause::of(&error, &self.target);
                    return Err(self.connect_error(innermost(&error), cause).await);
                }
                Err(_) => return Err(self.timeout_error()),
            };
            server.set_first(&first.channel);
            let limits = self.limits(first.clone()).await?;
            let message_bytes = limits.message_bytes;
            let region_bytes = if self.shared_memory { limits.region_bytes } else { 0 };
            let staging = StagingPool::new(&self.target, region_bytes);
            let mut channels = vec![first];
            for number in 1..self.connections {
                let channel = match is_unix {
                    true => endpoint.connect_lazy(),
                    false => endpoint.connect_with_connector_lazy(connector),
                };
                channels.push(frames(number, channel));
            }
            if server.instance().is_some() && !is_unix {
                let others = channels[1..].iter().cloned();
                join_all(others.map(|channel| self.reach_same_server(channel))).await;
            }
            let inner = Arc::new(Connections {
                target: self.target,
                channels,
                server,
                vector_keys: VectorKeys::default(),
                next_lane: AtomicUsize::new(0),
                deadline: self.deadline,
                retries: self.retries,
                is_of_fleet: self.is_of_fleet,
                message_bytes,
                chunk_bytes: message_bytes.min(CHUNK_BYTES),
                copies: CopyPool::default(),
                spare_chunks: SpareChunks::default(),
                staging,
            });
            Ok(Client { inner, affinity })
        })
    }

    /// Opens a connection, so that it is known whether it reaches the same server. A load balancer
    /// may choose another one for each.
    async fn reach_same_server(&self, channel: FrameChannel) {
        let id = Some(v1::stat_request::Id::UploadId(Bytes::new()));
        let mut store = StoreClient::new(channel);
        let stat = store.stat(v1::StatRequest { id });
        // The answer is an error. A connection that cannot be opened is opened on its first use.
        let _not_found = timeout(self.connect_timeout, stat).await;
    }

    async fn limits(&self, channel: FrameChannel) -> Result<ServerLimits> {
        let mut admin = AdminClient::new(channel);
        let deadline = CallDeadline::new(Some(self.connect_timeout));
        let request = deadline.request(v1::GetInfoRequest {});
        let mut cause = ConnectCause::Other;
        let answer = async {
            let answer = admin.get_info(request).await;
            Ok::<_, ClientError>(
                answer
                    .inspect_err(|status| cause = ConnectCause::of(status, &self.target))?
                    .into_inner(),
            )
        };
        match deadline.until_deadline(answer).await {
            Ok(info) => match info.limits {
                Some(limits) if limits.message_payload_bytes > 0 => Ok(ServerLimits {
                    message_bytes: limits.message_payload_bytes,
                    region_bytes: limits.region_bytes,
                }),
                _ => Err(ClientError::invalid_response("the response has no limits")),
            },
            Err(ClientError::DeadlineExceeded) => Err(self.timeout_error()),
            Err(ClientError::ConnectionLost(problem)) => {
                // TLS 1.3 refuses a client after the handshake. The connection may be gone before
                // the HTTP/2 library reads why.
                let may_be_refused =
                    self.target.starts_with("https://") && self.credentials.certificate.is_none();
                if cause == ConnectCause::Other && may_be_refused {
                    cause = ConnectCause::ClosedAfterHandshake;
                }
                Err(self.connect_error(problem, cause).await)
            }
            Err(ClientError::Refused(refusal)) if refusal.code == Code::PermissionDenied => {
                Ok(ServerLimits { message_bytes: MESSAGE_BYTES_DEFAULT, region_bytes: 0 })
            }
            Err(ClientError::Refused(refusal)) if refusal.reason_text.is_empty() => {
                match refusal.code {
                    Code::Internal | Code::Unimplemented | Code::Unknown => {
                        Err(ClientError::invalid_response(refusal.message))
                    }
                    // A proxy answers instead of a server that is away.
                    Code::Unavailable => {
                        Err(ClientError::cannot_connect(&self.target, refusal.message))
                    }
                    _ => Err(ClientError::Refused(refusal)),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let target = self.target.as_str();
        if !["http://", "https://", "unix:"].iter().any(|scheme| target.starts_with(scheme)) {
            let problem = "expected http://host:port, https://host:port or unix:/path";
            return Err(self.target_error(problem.into()));
        }
        let mut endpoint = Endpoint::from_shared(self.target.clone())
            .map_err(|error| self.target_error(innermost(&error)))?;
        if target.starts_with("https://") {
            let (authority, name) = (self.ca_certificate.as_deref(), self.domain_name.as_deref());
            let tls = self.credentials.tls_config(authority, name)?;
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| ClientError::setting("certificate", innermost(&error)))?;
        } else if let Some(what) = self.setting_for_tls() {
            let problem = format!("target {target:?} does not use TLS: use https://host:port");
            return Err(ClientError::setting(what, problem));
        }
        Ok(endpoint
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE))
    }

    /// A setting that would have no effect without TLS.
    fn setting_for_tls(&self) -> Option<&'static str> {
        let settings = [
            (self.ca_certificate.is_some(), "CA certificate"),
            (self.credentials.certificate.is_some(), "client certificate"),
            (self.domain_name.is_some(), "domain name"),
        ];
        settings.into_iter().find(|(is_set, _)| *is_set).map(|(_, what)| what)
    }

    fn target_error(&self, problem: String) -> ClientError {
        ClientError::setting(format!("target {:?}", self.target), problem)
    }

    async fn connect_error(&self, problem: String, cause: ConnectCause) -> ClientError {
        let cause = cause.or_probe(&self.target, self.connect_timeout).await;
        ClientError::CannotConnect { target: self.target.clone(), problem, cause }
    }

    fn timeout_error(&self) -> ClientError {
        let timeout_ms = self.connect_timeout.as_millis();
        ClientError::cannot_connect(&self.target, format!("no response within {timeout_ms} ms"))
    }
}
