//! Connections, each with its own budget, a timeout for the handshake and a limited life.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tonic::{
    Extensions,
    transport::server::{Connected, TlsConnectInfo},
};

use super::{
    connection_calls::{ConnectionCalls, ConnectionTimer},
    connection_limits::ConnectionPermit,
    settings::ServerSettings,
};
use crate::jobs::Budget;

#[derive(Debug, Clone)]
pub struct Peer {
    pub budget: Budget,
    /// The user who connected over the Unix socket; `None` for TCP.
    pub local_user: Option<u32>,
    /// `None` over the Unix socket.
    pub address: Option<SocketAddr>,
    pub calls: ConnectionCalls,
}

/// For logs.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.local_user) {
            (Some(address), _) => address.fmt(f),
            (None, Some(user)) => write!(f, "local user {user}"),
            (None, None) => f.write_str("unknown"),
        }
    }
}

impl Peer {
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions
            .get::<Self>()
            .or_else(|| extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref))
    }
}

/// Bytes of the HTTP/2 preface. A TLS hello is longer, and tonic times the rest of the handshake.
const PREFACE_BYTES: usize = 24;

pub struct LimitedConnection<S> {
    socket: S,
    peer: Peer,
    /// `None` once the preface is received.
    preface: Option<PendingPreface>,
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
    /// Wraps an accepted socket, whose peer must send the preface within the handshake timeout.
    pub fn new(socket: S, peer: Peer, permit: ConnectionPermit, settings: &ServerSettings) -> Self {
        let timeout = Box::pin(sleep(settings.handshake_timeout));
        let preface = Some(PendingPreface { missing_bytes: PREFACE_BYTES, timeout });
        // A connection that takes no more calls may finish those that it has.
        let age_max = 2 * settings.connection_age_max;
        let timer = ConnectionTimer::new(peer.calls.clone(), settings.connection_idle_max, age_max);
        Self { socket, peer, preface, timer, _permit: permit }
    }
}

impl<S> Connected for LimitedConnection<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        let Some(preface) = &mut self.preface else {
            return if read.is_pending() { self.timer.poll(context) } else { read };
        };
        if read.is_pending() {
            ready!(preface.timeout.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        preface.missing_bytes =
            preface.missing_bytes.saturating_sub(buffer.filled().len() - filled);
        if preface.missing_bytes == 0 {
            self.preface = None;
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
        Pin::new(&mut self.socket).poll_write(context, bytes)
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
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
