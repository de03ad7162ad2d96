//! Connections: counted, limited, each with its own budget.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
    _slot: Charge,
}

impl<S> Connection<S> {
    /// A socket that was accepted.
    pub fn new(socket: S, peer: Peer, slot: Charge) -> Self {
        Self { socket, peer, _slot: slot }
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
        Pin::new(&mut self.socket).poll_read(context, buffer)
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
