//! Connections: counted, limited, each with its own budget.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
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

use crate::{buffer::Charge, jobs::Budget};

/// What a handler knows of its caller.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The connection's own limits.
    pub budget: Budget,
    /// Came over the Unix socket.
    pub local: bool,
}

impl Peer {
    /// The caller of a request.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions
            .get::<Self>()
            .or_else(|| extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref))
    }
}

/// A socket with its peer.
pub struct Connection<S> {
    socket: S,
    peer: Peer,
    /// Until the first byte comes: when the connection is given up. h2 would wait for ever.
    handshake: Option<Pin<Box<Sleep>>>,
    _slot: Charge,
}

impl<S> Connection<S> {
    /// A socket that was accepted, and must say something within `handshake`.
    pub fn new(socket: S, peer: Peer, handshake: Duration, slot: Charge) -> Self {
        Self { socket, peer, handshake: Some(Box::pin(sleep(handshake))), _slot: slot }
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.handshake = None;
        }
        if read.is_pending()
            && let Some(limit) = &mut self.handshake
            && limit.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
