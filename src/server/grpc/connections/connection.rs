//! Connections, each with its own budget, a timeout for the handshake and a limited life.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};
use tonic::{Extensions, transport::server::Connected};

use super::{
    connection_calls::{ConnectionCalls, ConnectionTimer},
    connection_limits::{ConnectionPermit, SourceMemory},
    header_backlog::{BacklogGate, HeaderBacklog},
    header_blocks::{HeaderBlockLimit, ReceivedBlocks},
};
use crate::settings::ServerSettings;
use crate::{
    buffer::{Quota, QuotaPermit},
    error::{CredentialProblem, Limit, Result as CallResult},
    identity::{Caller, certificate_name},
    jobs::Budget,
    tenant::{Tenant, TenantId},
};

#[derive(Debug, Clone)]
pub struct Peer {
    pub budget: Budget,
    /// Slots for uploads in progress and vectors.
    pub uploads: Arc<Quota>,
    /// Bytes of calls that need no credentials.
    pub probe_bytes: Arc<Quota>,
    /// Memory of all open calls from the same address or local user.
    pub source: SourceMemory,
    /// The user who connected over a Unix socket; `None` for TCP.
    pub local_user: Option<u32>,
    /// The address of a TCP peer.
    pub remote: Option<SocketAddr>,
    /// Connected to the administrative socket.
    pub is_admin: bool,
    /// The holder of the client certificate, or why its name cannot be used; `None` without one.
    pub certificate: Option<Result<Caller, CredentialProblem>>,
    pub calls: ConnectionCalls,
    pub backlog: HeaderBacklog,
    /// Whether a proxy has made a call for another caller, see [`Self::carry_others`].
    carries_others: Arc<AtomicBool>,
    /// The tenants that have made calls, each with a permit for the connection.
    tenants: Arc<Mutex<Vec<(TenantId, QuotaPermit)>>>,
}

/// Bytes of calls without credentials of one connection.
const PROBE_BYTES_MAX: u64 = 32 << 10;

/// Where a peer connects from.
#[derive(Debug, Clone, Copy)]
pub enum PeerOrigin {
    Tcp(SocketAddr),
    /// The Unix socket.
    Unix {
        user: u32,
    },
    /// The administrative socket.
    Admin {
        user: u32,
    },
}

/// For logs.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.remote, self.local_user) {
            (Some(address), _) => address.fmt(f),
            (None, Some(user)) => write!(f, "local user {user}"),
            (None, None) => f.write_str("unknown"),
        }
    }
}

impl Peer {
    /// A peer that connects from `from`.
    pub fn new(settings: &ServerSettings, from: PeerOrigin) -> Self {
        let (bytes_max, jobs_max) =
            (settings.connection_bytes_in_flight_max, settings.connection_jobs_max.into());
        let budget = Budget::connection(bytes_max, jobs_max);
        let uploads = Quota::new(Limit::ConnectionUploads, settings.connection_uploads_max.into());
        let probe_bytes = Quota::new(Limit::Probes, PROBE_BYTES_MAX);
        let (local_user, remote, is_admin) = match from {
            PeerOrigin::Tcp(address) => (None, Some(address), false),
            PeerOrigin::Unix { user } => (Some(user), None, false),
            PeerOrigin::Admin { user } => (Some(user), None, true),
        };
        let calls = ConnectionCalls::default();
        let tenants = Arc::default();
        let certificate = None;
        Self {
            budget,
            uploads,
            probe_bytes,
            source: SourceMemory::default(),
            local_user,
            remote,
            is_admin,
            certificate,
            calls,
            backlog: HeaderBacklog::default(),
            carries_others: Arc::default(),
            tenants,
        }
    }

    /// A proxy has made a call for another caller, so that health checks may be those of several.
    pub fn carry_others(&self) {
        self.carries_others.store(true, Ordering::Relaxed);
    }

    pub fn carries_others(&self) -> bool {
        self.carries_others.load(Ordering::Relaxed)
    }

    /// Counts the connection as one of `tenant`, from its first call on. Those of operators do not
    /// count: a tenant's limit must not keep them out.
    ///
    /// Errors: `Exhausted`.
    pub fn join(&self, tenant: &Tenant) -> CallResult<()> {
        let mut tenants = self.tenants.lock();
        if !self.is_admin && tenants.iter().all(|(id, _)| *id != tenant.id) {
            tenants.push((tenant.id, tenant.connections.acquire(1)?));
        }
        Ok(())
    }

    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Self>()
    }
}

/// Time for a peer to read why its TLS handshake was refused, and reads of what it sends meanwhile.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: u32 = 64;

/// Bytes of the HTTP/2 preface.
const PREFACE_BYTES: usize = 24;

pub struct LimitedConnection<S> {
    socket: S,
    peer: Peer,
    /// `None` once the preface is received.
    preface: Option<PendingPreface>,
    header_blocks: HeaderBlockLimit,
    /// Closed while too many calls of the peer wait.
    gate: BacklogGate,
    /// What was read and waits at the gate.
    held: BytesMut,
    timer: ConnectionTimer,
    _permit: ConnectionPermit,
}

/// A preface that is not complete. hyper waits for it forever, so silent peers could take all
/// connections.
struct PendingPreface {
    missing_bytes: usize,
    timeout: Pin<Box<Sleep>>,
}

impl<S> LimitedConnection<S> {
    /// Wraps an accepted socket, whose peer must complete the TLS handshake, if there is one, and
    /// send the preface within the handshake timeout.
    pub fn new(
        socket: S,
        mut peer: Peer,
        permit: ConnectionPermit,
        settings: &ServerSettings,
    ) -> Self {
        peer.source = permit.source_memory().unwrap_or(peer.source);
        let timeout = Box::pin(sleep(settings.handshake_timeout));
        let preface = Some(PendingPreface { missing_bytes: PREFACE_BYTES, timeout });
        // A connection that takes no more calls may finish those that it has.
        let age_max = 2 * settings.connection_age_max;
        let timer = ConnectionTimer::new(peer.calls.clone(), settings.connection_idle_max, age_max);
        let header_blocks = HeaderBlockLimit::default();
        let gate = BacklogGate::new(peer.backlog.clone());
        let held = BytesMut::new();
        Self { socket, peer, preface, header_blocks, gate, held, timer, _permit: permit }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> LimitedConnection<S> {
    /// The address of a TCP peer.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.peer.remote
    }

    /// Completes the TLS handshake. The preface is then expected inside of TLS, before the same
    /// timeout.
    ///
    /// Errors: the handshake fails or takes too long.
    pub async fn complete_tls(
        self,
        config: Arc<ServerConfig>,
    ) -> io::Result<LimitedConnection<TlsStream<S>>> {
        let Self { socket, mut peer, mut preface, header_blocks, gate, held, timer, _permit } =
            self;
        let handshake = TlsAcceptor::from(config).accept(socket).into_fallible();
        let handshake = async {
            match handshake.await {
                Ok(socket) => Ok(socket),
                Err((error, socket)) => {
                    linger(socket).await;
                    Err(error)
                }
            }
        };
        let socket = match &mut preface {
            Some(preface) => tokio::select! {
                socket = handshake => socket?,
                () = preface.timeout.as_mut() => return Err(io::ErrorKind::TimedOut.into()),
            },
            None => handshake.await?,
        };
        let chain = socket.get_ref().1.peer_certificates();
        let name = chain.and_then(<[_]>::first).map(certificate_name);
        peer.certificate = name.map(|name| name.map(|name| Caller::certificate(&name)));
        Ok(LimitedConnection { socket, peer, preface, header_blocks, gate, held, timer, _permit })
    }
}

impl<S> LimitedConnection<S> {
    /// The outcome of a write. A peer that does not read is disconnected, too: while a write waits,
    /// nothing may be read.
    fn ended_or(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            let ended = ready!(self.timer.poll(context));
            return Poll::Ready(ended.and(Err(io::ErrorKind::TimedOut.into())));
        }
        written
    }
}

/// Closes a refused connection once its peer has read why: the system drops what was sent if the
/// peer has sent more than was read.
async fn linger(mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let read_rest = async {
        socket.shutdown().await?;
        let mut rest = [0; 1024];
        for _ in 0..LINGER_READS_MAX {
            if socket.read(&mut rest).await? == 0 {
                break;
            }
        }
        Ok::<_, io::Error>(())
    };
    // A peer that has gone needs no answer.
    let _ended = timeout(LINGER_TIMEOUT, read_rest).await;
}

impl<S> Connected for LimitedConnection<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<S: AsyncRead + Unpin> LimitedConnection<S> {
    /// Reads what is held, or from the socket. Reads nothing while too many calls wait.
    fn poll_socket(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.gate.poll_open(context));
        if self.held.is_empty() {
            return Pin::new(&mut self.socket).poll_read(context, buffer);
        }
        let bytes = self.held.len().min(buffer.remaining());
        buffer.put_slice(&self.held.split_to(bytes));
        Poll::Ready(Ok(()))
    }

    /// Notes the calls in what was received, and returns how many of its bytes may be passed on.
    ///
    /// Errors: a header block is too large.
    fn passed_bytes(&mut self, received: &[u8]) -> io::Result<usize> {
        let mut noted = 0;
        if let Some(preface) = &mut self.preface {
            noted = preface.missing_bytes.min(received.len());
            preface.missing_bytes -= noted;
            if preface.missing_bytes == 0 {
                self.preface = None;
            }
        }
        loop {
            match self.header_blocks.receive(&received[noted..]) {
                ReceivedBlocks::None => return Ok(received.len()),
                ReceivedBlocks::Call { end } => noted += end,
                ReceivedBlocks::TooLarge => return Err(io::ErrorKind::InvalidData.into()),
            }
            if !self.peer.backlog.arrive() {
                return Ok(noted);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = self.poll_socket(context, buffer);
        if read.is_pending() {
            let Some(preface) = &mut self.preface else { return self.timer.poll(context) };
            ready!(preface.timeout.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let received = &buffer.filled()[filled..];
        let passed = self.passed_bytes(received)?;
        if passed < received.len() {
            let mut held = BytesMut::from(&received[passed..]);
            held.unsplit(std::mem::take(&mut self.held));
            self.held = held;
            buffer.set_filled(filled + passed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.ended_or(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.ended_or(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
