//! Connections, each with its own budget and a timeout for the handshake.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tonic::{
    Extensions,
    transport::server::{Connected, TlsConnectInfo},
};

use crate::{
    buffer::QuotaPermit,
    error::Result,
    jobs::Budget,
    tenant::{Tenant, TenantId},
};

#[derive(Debug, Clone)]
pub struct Peer {
    pub budget: Budget,
    /// The user who connected over the Unix socket; `None` for TCP.
    pub local_user: Option<u32>,
    /// The tenants that have made calls, each with a permit for the connection.
    tenants: Arc<Mutex<Vec<(TenantId, QuotaPermit)>>>,
}

impl Peer {
    pub fn new(budget: Budget, local_user: Option<u32>) -> Self {
        Self { budget, local_user, tenants: Arc::default() }
    }

    /// Counts the connection as one of `tenant`, from its first call on.
    ///
    /// Errors: `Exhausted`.
    pub fn join(&self, tenant: &Tenant) -> Result<()> {
        let mut tenants = self.tenants.lock();
        if tenants.iter().all(|(id, _)| *id != tenant.id) {
            tenants.push((tenant.id, tenant.connections.acquire(1)?));
        }
        Ok(())
    }

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
    _permit: QuotaPermit,
}

/// A preface that is not complete. hyper waits for it forever, so silent peers could take all
/// connections.
struct PendingPreface {
    missing_bytes: usize,
    timeout: Pin<Box<Sleep>>,
}

impl<S> LimitedConnection<S> {
    /// Wraps an accepted socket, whose peer must send the preface within `handshake_timeout`.
    pub fn new(socket: S, peer: Peer, permit: QuotaPermit, handshake_timeout: Duration) -> Self {
        let timeout = Box::pin(sleep(handshake_timeout));
        let preface = Some(PendingPreface { missing_bytes: PREFACE_BYTES, timeout });
        Self { socket, peer, preface, _permit: permit }
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
