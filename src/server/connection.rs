//! Connections, each with its own budget and a timeout for the handshake.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};
use tonic::{Extensions, transport::server::Connected};

use crate::{
    buffer::QuotaPermit,
    error::CredentialProblem,
    identity::{Caller, certificate_name},
    jobs::Budget,
};

#[derive(Debug, Clone)]
pub struct Peer {
    pub budget: Budget,
    /// The user who connected over the Unix socket; `None` for TCP.
    pub local_user: Option<u32>,
    /// The address of a TCP peer.
    pub remote: Option<SocketAddr>,
    /// The holder of the client certificate, or why its name cannot be used; `None` without one.
    pub certificate: Option<Result<Caller, CredentialProblem>>,
}

impl Peer {
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Self>()
    }
}

/// Bytes of the HTTP/2 preface.
const PREFACE_BYTES: usize = 24;

pub struct LimitedConnection<S> {
    socket: S,
    peer: Peer,
    /// `None` once the preface is received.
    preface: Option<PendingPreface>,
    _permit: QuotaPermit,
}

/// A preface that is not complete. hyper waits for it forever, so silent peers could take all
/// connections.
struct PendingPreface {
    missing_bytes: usize,
    timeout: Pin<Box<Sleep>>,
}

impl<S> LimitedConnection<S> {
    /// Wraps an accepted socket, whose peer must complete the TLS handshake, if there is one, and
    /// send the preface within `handshake_timeout`.
    pub fn new(socket: S, peer: Peer, permit: QuotaPermit, handshake_timeout: Duration) -> Self {
        let timeout = Box::pin(sleep(handshake_timeout));
        let preface = Some(PendingPreface { missing_bytes: PREFACE_BYTES, timeout });
        Self { socket, peer, preface, _permit: permit }
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
        let Self { socket, mut peer, mut preface, _permit } = self;
        let handshake = TlsAcceptor::from(config).accept(socket);
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
        Ok(LimitedConnection { socket, peer, preface, _permit })
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
        let Some(preface) = &mut self.preface else { return read };
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
