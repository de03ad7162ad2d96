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
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::{
    ServerSettings,
    connection::{LimitedConnection, Peer},
    state::ServerState,
};
use crate::{jobs::Budget, region, telemetry};

/// Pause after a failed accept (no file descriptors, for example): the loop must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Default)]
pub struct Listeners {
    pub tcp: Option<Arc<TcpListener>>,
    pub unix: Option<Arc<UnixSocket>>,
    /// Hands out the descriptors of regions.
    pub regions: Option<Arc<UnixSocket>>,
}

impl Listeners {
    pub async fn bind(settings: &ServerSettings) -> io::Result<Self> {
        let with_address = |address: String| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"))
        };
        let mut listeners = Self::default();
        if let Some(address) = settings.listen {
            let bound = TcpListener::bind(address).await;
            listeners.tcp = Some(Arc::new(bound.map_err(with_address(address.to_string()))?));
        }
        let bind = async |path: &Path| {
            let bound = UnixSocket::bind(path, settings.unix_mode).await;
            bound.map(Arc::new).map_err(with_address(path.display().to_string()))
        };
        if let Some(path) = &settings.unix_socket {
            listeners.unix = Some(bind(path).await?);
            if settings.region_bytes_max > 0 {
                listeners.regions = Some(bind(&region::socket_path(path)).await?);
            }
        }
        Ok(listeners)
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

impl UnixSocket {
    /// The next connection.
    pub async fn accept(&self) -> UnixStream {
        loop {
            if let Some((socket, _)) = accepted_or_pause(self.listener.accept().await).await {
                return socket;
            }
        }
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Ignored: the file may be gone already.
        let _gone = fs::remove_file(&self.path);
    }
}

/// A connection with its own limits; `None` if too many are open.
fn limit<S>(
    state: &ServerState,
    socket: S,
    local_user: Option<u32>,
    remote: Option<SocketAddr>,
) -> Option<LimitedConnection<S>> {
    let permit = state.connections.acquire(1).inspect_err(telemetry::count_refusal).ok();
    if permit.is_none() {
        tracing::warn!(max = state.connections.max(), "connection refused: too many are open");
    }
    let settings = &state.settings;
    let (bytes_max, jobs_max) =
        (settings.connection_bytes_in_flight_max, settings.connection_jobs_max.into());
    let budget = Budget::connection(bytes_max, jobs_max);
    let peer = Peer { budget, local_user, remote, certificate: None };
    Some(LimitedConnection::new(socket, peer, permit?, settings.handshake_timeout))
}

pub fn tcp(
    listener: Arc<TcpListener>,
    state: Arc<ServerState>,
) -> impl Stream<Item = io::Result<LimitedConnection<TcpStream>>> {
    stream::unfold((listener, state), |(listener, state)| async {
        loop {
            let accepted = listener.accept().await;
            let Some((socket, remote)) = accepted_or_pause(accepted).await else { continue };
            // With Nagle's algorithm, small frames wait for the peer's delayed acknowledgements.
            let nodelay = socket.set_nodelay(true);
            if let (Ok(()), Some(connection)) = (nodelay, limit(&state, socket, None, Some(remote)))
            {
                return Some((Ok(connection), (listener, state)));
            }
        }
    })
}

pub fn unix(
    socket: Arc<UnixSocket>,
    state: Arc<ServerState>,
) -> impl Stream<Item = io::Result<LimitedConnection<UnixStream>>> {
    stream::unfold((socket, state), |(unix, state)| async {
        loop {
            let socket = unix.accept().await;
            let Ok(peer) = socket.peer_cred() else { continue };
            if let Some(connection) = limit(&state, socket, Some(peer.uid()), None) {
                return Some((Ok(connection), (unix, state)));
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
    use crate::server::Engines;

    #[tokio::test]
    async fn counts_refused_connections() {
        let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
        let state = ServerState::new(settings, Engines::cpu(1, "a test").unwrap()).unwrap();
        let first = limit(&state, (), None, None).expect("the limit is one connection");
        let text = telemetry::metrics_of(|| {
            for local_user in [None, Some(0)] {
                assert!(limit(&state, (), local_user, None).is_none());
            }
        });
        drop(first);
        assert!(text.contains(r#"capstan_rejected_total{limit="CONNECTIONS"} 2"#), "{text}");
    }
}
