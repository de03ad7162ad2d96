//! Listeners: TCP and the Unix socket.

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
    Settings,
    connection::{Connection, Peer},
};
use crate::{buffer::Counter, jobs::Budget, telemetry};

/// After a failed accept (no file descriptors, say), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the server listens.
#[derive(Clone)]
pub struct Listeners {
    /// TCP, if wanted.
    pub tcp: Option<Arc<TcpListener>>,
    /// The Unix socket, if wanted.
    pub unix: Option<Arc<UnixSocket>>,
}

impl Listeners {
    /// Binds what the settings name.
    ///
    /// Errors: the system's, with the address in front.
    pub async fn bind(settings: &Settings) -> io::Result<Self> {
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

    /// The TCP address, with the port that was picked.
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
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there"));
            }
            // Left behind by a server that was killed.
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Nothing is lost if it is gone already.
        let _gone = fs::remove_file(&self.path);
    }
}

/// Admits connections.
#[derive(Clone)]
pub struct Door {
    /// Connections open.
    pub connections: Arc<Counter>,
    /// Each connection's limits.
    pub bytes_max: u64,
    /// Each connection's limits.
    pub jobs_max: u64,
    /// How long a peer may take to begin to speak.
    pub handshake_timeout: Duration,
}

impl Door {
    /// Gives an accepted socket its peer; `None` where there are too many.
    fn admit<S>(&self, socket: S, local: bool) -> Option<Connection<S>> {
        let slot = self.connections.take(1).inspect_err(telemetry::refused).ok();
        if slot.is_none() {
            tracing::warn!(max = self.connections.max(), "connection refused: too many");
        }
        let budget = Budget::connection(self.bytes_max, self.jobs_max);
        let peer = Peer { budget, local };
        Some(Connection::new(socket, peer, slot?, self.handshake_timeout))
    }
}

/// Accepted TCP connections, for ever.
pub fn tcp(
    listener: Arc<TcpListener>,
    door: Door,
) -> impl Stream<Item = io::Result<Connection<tokio::net::TcpStream>>> {
    stream::unfold((listener, door), |(listener, door)| async {
        loop {
            let accepted = listener.accept().await;
            let Some((socket, _)) = ready(accepted).await else { continue };
            // Without it, small frames wait for the peer's delayed acknowledgements.
            let nodelay = socket.set_nodelay(true);
            if let (Ok(()), Some(connection)) = (nodelay, door.admit(socket, false)) {
                return Some((Ok(connection), (listener, door)));
            }
        }
    })
}

/// Accepted connections of the Unix socket, for ever.
pub fn unix(
    socket: Arc<UnixSocket>,
    door: Door,
) -> impl Stream<Item = io::Result<Connection<UnixStream>>> {
    stream::unfold((socket, door), |(listening, door)| async {
        loop {
            let accepted = listening.listener.accept().await;
            let Some((socket, _)) = ready(accepted).await else { continue };
            if let Some(connection) = door.admit(socket, true) {
                return Some((Ok(connection), (listening, door)));
            }
        }
    })
}

async fn ready<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "cannot accept");
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
    async fn connections_that_are_refused_are_counted() {
        let door = Door {
            connections: Counter::new(Limit::Connections, 1),
            bytes_max: 1,
            jobs_max: 1,
            handshake_timeout: Duration::from_secs(1),
        };
        let first = door.admit((), false).expect("room for one");
        let text = telemetry::counted(|| {
            assert!(door.admit((), false).is_none() && door.admit((), true).is_none());
        });
        drop(first);
        assert!(text.contains(r#"capstan_rejected_total{limit="CONNECTIONS"} 2"#), "{text}");
    }
}
