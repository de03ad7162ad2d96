//! Listens on TCP and on the Unix socket.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{Stream, stream};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::{
    ServerSettings,
    connection::{LimitedConnection, Peer},
    state::ServerState,
};
use crate::{buffer::Quota, jobs::Budget, telemetry};

/// Pause after a failed accept (no file descriptors, for example): the loop must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub struct Listeners {
    pub tcp: Option<Arc<TcpListener>>,
    pub unix: Option<Arc<UnixSocket>>,
}

impl Listeners {
    pub async fn bind(settings: &ServerSettings) -> io::Result<Self> {
        let with_address = |address: String| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"))
        };
        let tcp = match settings.listen {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(Arc::new(bound.map_err(with_address(address.to_string()))?))
            }
            None => None,
        };
        let unix = match &settings.unix_socket {
            Some(path) => {
                let bound = UnixSocket::bind(path, settings.unix_mode).await;
                Some(Arc::new(bound.map_err(with_address(path.display().to_string()))?))
            }
            None => None,
        };
        Ok(Self { tcp, unix })
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

#[derive(Clone)]
pub struct ConnectionLimiter {
    connections: Arc<Quota>,
    /// Limits of each connection.
    bytes_max: u64,
    jobs_max: u64,
    /// Time in which a peer must send the preface.
    handshake_timeout: Duration,
}

impl ConnectionLimiter {
    pub fn new(state: &ServerState) -> Self {
        Self {
            connections: state.connections.clone(),
            bytes_max: state.settings.connection_bytes_in_flight_max,
            jobs_max: state.settings.connection_jobs_max.into(),
            handshake_timeout: state.settings.handshake_timeout,
        }
    }

    /// Wraps an accepted socket; `None` if too many connections are open.
    fn wrap<S>(&self, socket: S, is_local: bool) -> Option<LimitedConnection<S>> {
        let permit = self.connections.acquire(1).inspect_err(telemetry::count_refusal).ok();
        if permit.is_none() {
            tracing::warn!(max = self.connections.max(), "connection refused: too many are open");
        }
        let peer = Peer { budget: Budget::connection(self.bytes_max, self.jobs_max), is_local };
        Some(LimitedConnection::new(socket, peer, permit?, self.handshake_timeout))
    }
}

pub fn tcp(
    listener: Arc<TcpListener>,
    limiter: ConnectionLimiter,
) -> impl Stream<Item = io::Result<LimitedConnection<TcpStream>>> {
    stream::unfold((listener, limiter), |(listener, limiter)| async {
        loop {
            let accepted = listener.accept().await;
            let Some((socket, _)) = accepted_or_pause(accepted).await else { continue };
            // With Nagle's algorithm, small frames wait for the peer's delayed acknowledgements.
            let nodelay = socket.set_nodelay(true);
            if let (Ok(()), Some(connection)) = (nodelay, limiter.wrap(socket, false)) {
                return Some((Ok(connection), (listener, limiter)));
            }
        }
    })
}

pub fn unix(
    socket: Arc<UnixSocket>,
    limiter: ConnectionLimiter,
) -> impl Stream<Item = io::Result<LimitedConnection<UnixStream>>> {
    stream::unfold((socket, limiter), |(unix, limiter)| async {
        loop {
            let accepted = unix.listener.accept().await;
            let Some((socket, _)) = accepted_or_pause(accepted).await else { continue };
            if let Some(connection) = limiter.wrap(socket, true) {
                return Some((Ok(connection), (unix, limiter)));
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
        let limiter = ConnectionLimiter {
            connections: Quota::new(Limit::Connections, 1),
            bytes_max: 1,
            jobs_max: 1,
            handshake_timeout: Duration::from_secs(1),
        };
        let first = limiter.wrap((), false).expect("the limit is one connection");
        let text = telemetry::metrics_of(|| {
            assert!(limiter.wrap((), false).is_none() && limiter.wrap((), true).is_none());
        });
        drop(first);
        assert!(text.contains(r#"capstan_rejected_total{limit="CONNECTIONS"} 2"#), "{text}");
    }
}
