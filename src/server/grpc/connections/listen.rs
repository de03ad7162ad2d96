//! Listens on TCP and on the Unix sockets.

use std::{
    ffi::OsString,
    fs::{self, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{Stream, stream};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::{
    connection::{LimitedConnection, Peer, PeerOrigin},
    connection_limits::ConnectionSource,
};
use crate::grpc::{ServerSettings, state::ServerState};
use crate::telemetry::{self, LogThrottle};

/// Pause after a failed accept (no file descriptors, for example): the loop must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The time after which the system asks a silent peer whether it is there, and then asks again.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

#[derive(Clone, Default)]
pub struct Listeners {
    pub tcp: Option<Arc<TcpListener>>,
    pub unix: Option<Arc<UnixSocket>>,
    /// For operators.
    pub admin: Option<Arc<UnixSocket>>,
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
        let bind = async |path: &Path, mode| {
            let bound = UnixSocket::bind(path, mode).await;
            bound.map(Arc::new).map_err(with_address(path.display().to_string()))
        };
        if let Some(path) = &settings.unix_socket {
            listeners.unix = Some(bind(path, settings.unix_mode).await?);
        }
        if let Some(path) = &settings.region_socket() {
            listeners.regions = Some(bind(path, settings.unix_mode).await?);
        }
        if let Some(path) = &settings.admin_socket {
            listeners.admin = Some(bind(path, settings.admin_mode).await?);
        }
        Ok(listeners)
    }
}

/// A listening Unix socket; dropping it removes its file, unless another server has put its own
/// there.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    file: SocketFile,
}

/// Tells the file of a socket from another one of the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SocketFile {
    device: u64,
    inode: u64,
    /// When it was made, since the number of a removed file is used again. A renaming keeps it.
    modified: SystemTime,
}

impl SocketFile {
    /// `None` if there is no socket.
    fn at(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok().filter(|meta| meta.file_type().is_socket())?;
        let modified = meta.modified().ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino(), modified })
    }

    /// Removes the file from `path`, unless it is another one by now.
    fn remove_from(self, path: &Path) -> io::Result<()> {
        let mut aside = OsString::from(path);
        aside.push(format!(".{}", self.inode));
        let aside = PathBuf::from(aside);
        if Self::at(path) != Some(self) {
            return Ok(());
        }
        // A server that starts at the same time may put its own file there before this.
        fs::rename(path, &aside)?;
        match Self::at(&aside) == Some(self) {
            true => fs::remove_file(&aside),
            // A third server may have put its file there meanwhile.
            false => Ok(renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE)?),
        }
    }
}

impl UnixSocket {
    async fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        if let Some(found) = SocketFile::at(path) {
            match UnixStream::connect(path).await {
                // A server that was killed left it behind.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    found.remove_from(path)?;
                }
                // Also if too many peers wait for a server that is starting.
                _ => {
                    let in_use = "another server uses it";
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, in_use));
                }
            }
        }
        let socket = bind_with_mode(path, mode)?;
        let file = SocketFile::at(path).ok_or(io::ErrorKind::NotFound)?;
        net::listen(&socket, BACKLOG)?;
        let listener = UnixListener::from_std(socket.into())?;
        Ok(Self { listener, path: path.to_owned(), file })
    }
}

/// Binds a Unix socket that refuses connections until it listens, so that nobody can connect before
/// it has its permissions.
fn bind_with_mode(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(socket)
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
        // Ignored: a folder that cannot be changed keeps the file, which the next server removes.
        let _kept = self.file.remove_from(&self.path);
    }
}

/// A connection with its own limits; `None` if too many are open.
fn limit<S>(state: &ServerState, socket: S, from: PeerOrigin) -> Option<LimitedConnection<S>> {
    static REFUSED: LogThrottle = LogThrottle::new();
    let settings = &state.settings;
    let peer = Peer::new(settings, from);
    let permit = match from {
        PeerOrigin::Tcp(address) => {
            state.connections.acquire(ConnectionSource::Address(address.ip()))
        }
        PeerOrigin::Unix { user } => state.connections.acquire(ConnectionSource::User(user)),
        PeerOrigin::Admin { .. } => state.connections.acquire_admin(),
    };
    match permit.inspect_err(telemetry::count_refusal) {
        Ok(permit) => Some(LimitedConnection::new(socket, peer, permit, settings)),
        Err(_) => {
            if let Some(suppressed) = REFUSED.pass() {
                let open = state.connections.used();
                tracing::warn!(%peer, open, suppressed, "connection refused: too many are open");
            }
            None
        }
    }
}

/// Lets the system find peers that have gone without a word, even before they speak HTTP/2. With
/// Nagle's algorithm, small frames would wait for the peer's delayed acknowledgements.
fn configure(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, TCP_KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, TCP_KEEPALIVE)?;
    Ok(())
}

pub fn tcp(
    listener: Arc<TcpListener>,
    state: Arc<ServerState>,
) -> impl Stream<Item = io::Result<LimitedConnection<TcpStream>>> {
    stream::unfold((listener, state), |(listener, state)| async {
        loop {
            let accepted = listener.accept().await;
            let Some((socket, address)) = accepted_or_pause(accepted).await else { continue };
            if configure(&socket).is_ok()
                && let Some(connection) = limit(&state, socket, PeerOrigin::Tcp(address))
            {
                return Some((Ok(connection), (listener, state)));
            }
        }
    })
}

/// Connections to a Unix socket. `origin` tells which one, given the peer's user.
pub fn unix(
    socket: Arc<UnixSocket>,
    state: Arc<ServerState>,
    origin: fn(u32) -> PeerOrigin,
) -> impl Stream<Item = io::Result<LimitedConnection<UnixStream>>> {
    stream::unfold((socket, state), move |(unix, state)| async move {
        loop {
            let socket = unix.accept().await;
            let Ok(peer) = socket.peer_cred() else { continue };
            if let Some(connection) = limit(&state, socket, origin(peer.uid())) {
                return Some((Ok(connection), (unix, state)));
            }
        }
    })
}

async fn accepted_or_pause<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            static FAILED: LogThrottle = LogThrottle::new();
            if let Some(suppressed) = FAILED.pass() {
                tracing::warn!(%error, suppressed, "cannot accept a connection");
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::Engines;

    #[tokio::test]
    async fn counts_refused_connections() {
        let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
        let state = ServerState::new(settings, Engines::cpu(1, "a test").unwrap()).unwrap();
        let tcp = PeerOrigin::Tcp(([127, 0, 0, 1], 1).into());
        let first = limit(&state, (), tcp).expect("the limit is one connection");
        let text = telemetry::metrics_of(|| {
            let unix = PeerOrigin::Unix { user: 0 };
            assert!(limit(&state, (), tcp).is_none() && limit(&state, (), unix).is_none());
        });
        drop(first);
        assert!(text.contains(r#"capstan_rejected_total{limit="CONNECTIONS"} 2"#), "{text}");
    }

    #[tokio::test]
    async fn the_system_watches_silent_tcp_peers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        assert!(!sockopt::socket_keepalive(&socket).unwrap());
        configure(&socket).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), TCP_KEEPALIVE);
    }

    #[tokio::test]
    async fn a_unix_socket_has_its_mode_before_anyone_can_connect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = bind_with_mode(&path, 0o620).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        net::listen(&socket, BACKLOG).unwrap();
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_ends_leaves_the_socket_of_the_server_that_has_replaced_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path, 0o600).await.unwrap();
        let refused = UnixSocket::bind(&path, 0o600).await.err().expect("the first one serves");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // An operator removes the file of a server that drains for long.
        fs::remove_file(&path).unwrap();
        let second = UnixSocket::bind(&path, 0o600).await.unwrap();
        drop(first);
        UnixStream::connect(&path).await.expect("the second one still has its socket");
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn only_the_socket_that_a_killed_server_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(bind_with_mode(&path, 0o600).unwrap());
        let left = SocketFile::at(&path).unwrap();
        let second = UnixSocket::bind(&path, 0o600).await.unwrap();
        // Another server that has found the old file, too.
        left.remove_from(&path).unwrap();
        UnixStream::connect(&path).await.expect("the second one still has its socket");
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
