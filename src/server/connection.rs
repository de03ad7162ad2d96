//! Connections, each with its own budget and a timeout for the handshake.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tonic::{
    Extensions,
    transport::server::{Connected, TlsConnectInfo},
};

use crate::{buffer::QuotaPermit, jobs::Budget};

/// What a handler knows about its caller.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The connection's budget.
    pub budget: Budget,
    /// True if connected over the Unix socket.
    pub local: bool,
}

impl Peer {
    /// The peer in a request's extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions
            .get::<Self>()
            .or_else(|| extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref))
    }
}

/// Bytes of the HTTP/2 preface. A TLS hello is longer, and tonic times the rest of the handshake.
const PREFACE_BYTES: usize = 24;

/// An accepted socket with its peer.
pub struct LimitedConnection<S> {
    socket: S,
    peer: Peer,
    /// Until the preface is received: the bytes still missing, and the timeout. hyper waits for a
    /// preface forever, so silent peers could take all connections.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    _connection_charge: QuotaPermit,
}

impl<S> LimitedConnection<S> {
    /// Wraps an accepted socket, whose peer must send the preface within `handshake_timeout`.
    pub fn new(socket: S, peer: Peer, slot: QuotaPermit, handshake_timeout: Duration) -> Self {
        let greeting = Some((PREFACE_BYTES, Box::pin(sleep(handshake_timeout))));
        Self { socket, peer, preface: greeting, _connection_charge: slot }
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        let Some((left, deadline)) = &mut self.preface else { return read };
        if read.is_pending() {
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        *left = left.saturating_sub(buffer.filled().len() - before);
        if *left == 0 {
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
