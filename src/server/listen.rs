//! Listens on TCP and on the Unix socket.

use std::{
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{Stream, stream};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::{
    ServerSettings,
    connection::{LimitedConnection, Peer},
};
use crate::{buffer::Quota, jobs::Budget, telemetry};

/// Pause after a failed accept (no file descriptors, for example): the loop must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The server's listeners.
#[derive(Clone)]
pub struct Listeners {
    /// TCP, if configured.
    pub tcp: Option<Arc<TcpListener>>,
    /// The Unix socket, if configured.
    pub unix: Option<Arc<UnixSocket>>,
}

impl Listeners {
    /// Binds the addresses in the settings.
    ///
    /// Errors: the system's, prefixed with the address.
    pub async fn bind(settings: &ServerSettings) -> io::Result<Self> {
        let name = |address: String| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"))
        };
        let tcp = match settings.listen {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(Arc::new(bound.map_err(name(address.to_string()))?))
            }
            None => None,
        };
        let unix = match &settings.unix_socket {
            Some(path) => {
                let bound = UnixSocket::bind(path, settings.unix_mode).await;
                Some(Arc::new(bound.map_err(name(path.display().to_string()))?))
            }
            None => None,
        };
        Ok(Self { tcp, unix })
    }

    /// The TCP address, with the actual port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }
}

/// A listening Unix socket; dropping it removes its file.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    async fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server uses it"));
            }
            // A server that was killed left it behind.
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Ignored: the file may be gone already.
        let _gone = fs::remove_file(&self.path);
    }
}

/// Admits connections.
#[derive(Clone)]
pub struct ConnectionLimiter {
    /// Counts open connections.
    pub connections: Arc<Quota>,
    /// Byte budget of each connection.
    pub bytes_max: u64,
    /// Job quota of each connection.
    pub jobs_max: u64,
    /// Time in which a peer must send the preface.
    pub handshake_timeout: Duration,
}

impl ConnectionLimiter {
    /// Wraps an accepted socket; `None` if too many connections are open.
    fn wrap<S>(&self, socket: S, local: bool) -> Option<LimitedConnection<S>> {
        let slot = self.connections.acquire(1).inspect_err(telemetry::count_refusal).ok();
        if slot.is_none() {
            tracing::warn!(max = self.connections.max(), "connection refused: too many are open");
        }
        let budget = Budget::connection(self.bytes_max, self.jobs_max);
        let peer = Peer { budget, local };
        Some(LimitedConnection::new(socket, peer, slot?, self.handshake_timeout))
    }
}

/// An endless stream of accepted TCP connections.
pub fn tcp(
    listener: Arc<TcpListener>,
    door: ConnectionLimiter,
) -> impl Stream<Item = io::Result<LimitedConnection<tokio::net::TcpStream>>> {
    stream::unfold((listener, door), |(listener, door)| async {
        loop {
            let accepted = listener.accept().await;
            let Some((socket, _)) = accepted_or_pause(accepted).await else { continue };
            // With Nagle's algorithm, small frames wait for the peer's delayed acknowledgements.
            let nodelay = socket.set_nodelay(true);
            if let (Ok(()), Some(connection)) = (nodelay, door.wrap(socket, false)) {
                return Some((Ok(connection), (listener, door)));
            }
        }
    })
}

/// An endless stream of accepted connections of the Unix socket.
pub fn unix(
    socket: Arc<UnixSocket>,
    door: ConnectionLimiter,
) -> impl Stream<Item = io::Result<LimitedConnection<UnixStream>>> {
    stream::unfold((socket, door), |(listening, door)| async {
        loop {
            let accepted = listening.listener.accept().await;
            let Some((socket, _)) = accepted_or_pause(accepted).await else { continue };
            if let Some(connection) = door.wrap(socket, true) {
                return Some((Ok(connection), (listening, door)));
            }
        }
    })
}

async fn accepted_or_pause<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Limit;

    #[tokio::test]
    async fn counts_refused_connections() {
        let door = ConnectionLimiter {
            connections: Quota::new(Limit::Connections, 1),
            bytes_max: 1,
            jobs_max: 1,
            handshake_timeout: Duration::from_secs(1),
        };
        let first = door.wrap((), false).expect("the limit is one connection");
        let text = telemetry::metrics_of(|| {
            assert!(door.wrap((), false).is_none() && door.wrap((), true).is_none());
        });
        drop(first);
        assert!(text.contains(r#"capstan_rejected_total{limit="CONNECTIONS"} 2"#), "{text}");
    }
}
