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
    call::{Answer, Call},
    error::{Error, Result},
};
use crate::wire::v1::{
    admin_client::AdminClient, compute_client::ComputeClient, store_client::StoreClient,
};

const MIB: u32 = 1 << 20;
/// A chunk of 256 KiB and its envelope fit one frame; larger ones gave nothing.
const FRAME_BYTES: u32 = MIB / 2;
const STREAM_WINDOW_BYTES: u32 = 4 * MIB;
const CONNECTION_WINDOW_BYTES: u32 = 16 * MIB;
const KEEPALIVE: Duration = Duration::from_secs(20);
/// The largest answer in one message: 65536 sums of G2 take 18 MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Payload bytes of a message, where the server does not say.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Payload bytes of a chunk: larger ones cost memory and gave nothing.
const CHUNK_BYTES: u64 = 256 << 10;

/// What the clones of a client share.
pub(crate) struct Inner {
    pub target: String,
    pub channels: Vec<Channel>,
    next: AtomicUsize,
    deadline: Option<Duration>,
    retries: u32,
    /// Payload bytes that one message may hold, as the server says.
    pub message_bytes: u64,
    pub chunk_bytes: u64,
}

/// Chooses how to connect. See [`Client::builder`].
#[derive(Clone)]
pub struct Builder {
    target: String,
    connections: usize,
    ca_certificate: Option<Vec<u8>>,
    domain_name: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Duration,
    retries: u32,
}

impl Builder {
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

    /// Connections to spread large payloads and concurrent calls over: 1 to 64, 4 by default. The
    /// first is made at once, the others when they are first used.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 64);
        self
    }

    /// The PEM certificate of the authority that signed the server's. Without: the system's roots.
    /// Only for `https://` targets.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_certificate = Some(pem.into());
        self
    }

    /// The name in the server's certificate, if it is not the target's host. Only for `https://`
    /// targets.
    #[must_use]
    pub fn domain_name(mut self, name: impl Into<String>) -> Self {
        self.domain_name = Some(name.into());
        self
    }

    /// How long each call may take, retries included, where its options do not say. Without:
    /// forever.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long connecting may take: 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often a call is repeated when the server is not available, or full for the moment: 3 by
    /// default.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Connects, and asks the server for its limits.
    ///
    /// Errors: `Setting` for a target or certificate that cannot be used, `Connect`, `Answer` where
    /// it is no capstan server.
    pub async fn connect(self) -> Result<Client> {
        self.open().await
    }

    fn open(self) -> Answer<'static, Client> {
        Box::pin(async move {
            let endpoint = self.endpoint()?;
            let first = tokio::time::timeout(self.connect_timeout, endpoint.connect()).await;
            let first = match first {
                Ok(Ok(channel)) => channel,
                Ok(Err(error)) => return Err(self.unreachable(innermost(&error))),
                Err(_) => return Err(self.unreachable(self.no_answer())),
            };
            let mut channels = vec![first];
            channels.resize_with(self.connections, || endpoint.connect_lazy());
            let mut inner = Inner {
                target: self.target.clone(),
                channels,
                next: AtomicUsize::new(0),
                deadline: self.deadline,
                retries: self.retries,
                message_bytes: 0,
                chunk_bytes: CHUNK_BYTES,
            };
            inner.message_bytes = self.message_bytes(&inner).await?;
            inner.chunk_bytes = inner.chunk_bytes.min(inner.message_bytes);
            Ok(Client { inner: Arc::new(inner) })
        })
    }

    async fn message_bytes(&self, inner: &Inner) -> Result<u64> {
        let mut admin = AdminClient::new(inner.channels[0].clone());
        let call = Call::new(Some(self.connect_timeout), 0);
        let info = call.within(admin.get_info(call.request(Default::default()))).await;
        match info {
            Ok(info) => match info.limits.map(|limits| limits.message_payload_bytes) {
                Some(bytes) if bytes > 0 => Ok(bytes),
                _ => Err(Error::answer("no limits")),
            },
            Err(Error::Deadline) => Err(self.unreachable(self.no_answer())),
            Err(Error::Lost(problem)) => Err(self.unreachable(problem)),
            Err(Error::Refused(refusal)) if refusal.code == Code::PermissionDenied => {
                Ok(MESSAGE_BYTES)
            }
            Err(Error::Refused(refusal)) if refusal.reason.is_empty() => {
                Err(Error::answer(refusal.message))
            }
            Err(error) => Err(error),
        }
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let target = self.target.as_str();
        if !["http://", "https://", "unix:"].iter().any(|scheme| target.starts_with(scheme)) {
            let problem = "not http://host:port, https://host:port or unix:/path";
            return Err(self.unusable(problem));
        }
        let mut endpoint = Endpoint::from_shared(self.target.clone())
            .map_err(|error| self.unusable(innermost(&error)))?;
        if target.starts_with("https://") {
            let mut tls = ClientTlsConfig::new();
            tls = match &self.ca_certificate {
                Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
                None => tls.with_native_roots(),
            };
            if let Some(name) = &self.domain_name {
                tls = tls.domain_name(name);
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| Error::Setting {
                what: "certificate".into(),
                problem: innermost(&error),
            })?;
        } else if self.ca_certificate.is_some() {
            return Err(self.needs_tls("CA certificate"));
        } else if self.domain_name.is_some() {
            return Err(self.needs_tls("domain name"));
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

    fn unusable(&self, problem: impl Into<String>) -> Error {
        Error::Setting { what: format!("target {:?}", self.target), problem: problem.into() }
    }

    fn needs_tls(&self, what: &str) -> Error {
        let problem = format!("target {:?} does not use TLS: use https://host:port", self.target);
        Error::Setting { what: what.into(), problem }
    }

    fn unreachable(&self, problem: String) -> Error {
        Error::Connect { target: self.target.clone(), problem }
    }

    fn no_answer(&self) -> String {
        format!("no answer in {} ms", self.connect_timeout.as_millis())
    }
}

/// The innermost error says most: the outer ones are "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

impl Client {
    /// Begins a call: its clock runs from here.
    pub(crate) fn start(&self, deadline: Option<Duration>) -> Call {
        Call::new(deadline.or(self.inner.deadline), self.inner.retries)
    }

    /// A connection for a call that needs one, in turn.
    fn any_channel(&self) -> Channel {
        let turn = self.inner.next.fetch_add(1, Ordering::Relaxed);
        self.channel(turn)
    }

    fn channel(&self, turn: usize) -> Channel {
        self.inner.channels[turn % self.inner.channels.len()].clone()
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.any_channel())
    }

    pub(crate) fn compute(&self) -> ComputeClient<Channel> {
        ComputeClient::new(self.any_channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn store(&self) -> StoreClient<Channel> {
        StoreClient::new(self.any_channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Connection number `lane`: for payloads that are spread over several.
    pub(crate) fn store_on(&self, lane: usize) -> StoreClient<Channel> {
        StoreClient::new(self.channel(lane)).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn compute_on(&self, lane: usize) -> ComputeClient<Channel> {
        ComputeClient::new(self.channel(lane)).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Over how many connections a payload of `bytes` is best spread: another connection costs
    /// more than it gives below some 2 MiB each.
    pub(crate) fn lanes(&self, bytes: u64) -> usize {
        let worth = usize::try_from(bytes >> 21).unwrap_or(usize::MAX);
        worth.clamp(1, self.inner.channels.len())
    }
}
