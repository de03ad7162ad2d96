//! Maps regions: memory that a server on the same host shares.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use capstan_region::{SharedMemory, receive_descriptor};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::UnixStream,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::wire::v1;

/// Time for the server to hand out a region.
const HANDOUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the server had no place for the connection.
const CROWDED_PAUSE: Duration = Duration::from_millis(50);
/// After as many attempts, ordinary memory will do.
const ATTEMPTS_MAX: u32 = 25;

pub(crate) struct ClientRegion {
    pub memory: SharedMemory,
    pub id: [u8; 16],
    /// The server releases the region when this is closed.
    _open: UnixStream,
}

impl ClientRegion {
    /// Where the memory begins.
    pub fn start(&self) -> v1::RegionPlace {
        v1::RegionPlace { region_id: Bytes::copy_from_slice(&self.id), offset: 0 }
    }
}

/// The path of a target on a Unix socket.
pub(crate) fn unix_socket(target: &str) -> Option<PathBuf> {
    let path = target.strip_prefix("unix:")?;
    Some(path.strip_prefix("//").unwrap_or(path).into())
}

/// Maps a region of at least `bytes`. Asks again if the server is busy with others.
///
/// Errors: those of the socket, and of an answer that makes no sense.
pub(crate) async fn map_region(
    path: &Path,
    opened: &v1::OpenRegionResponse,
    bytes: u64,
) -> io::Result<ClientRegion> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let id = opened.region_id.as_ref().try_into().map_err(|_| invalid())?;
    let ask = async {
        for _ in 1..ATTEMPTS_MAX {
            match ask(path, opened).await {
                Err(error) if is_crowded(&error) => sleep(CROWDED_PAUSE).await,
                answer => return answer,
            }
        }
        ask(path, opened).await
    };
    let (open, file) = timeout(HANDOUT_TIMEOUT, ask).await??;
    let len = usize::try_from(opened.bytes).ok().filter(|_| opened.bytes >= bytes);
    let len = len.ok_or_else(invalid)?;
    // Touches all pages.
    let memory = spawn_blocking(move || SharedMemory::map(file, len)).await;
    let memory = memory.map_err(io::Error::other)??;
    Ok(ClientRegion { memory, id, _open: open })
}

async fn ask(path: &Path, opened: &v1::OpenRegionResponse) -> io::Result<(UnixStream, OwnedFd)> {
    let mut open = UnixStream::connect(path).await?;
    open.write_all(&[&opened.region_id[..], &opened.token].concat()).await?;
    let receive = || receive_descriptor(&open);
    let file = open.async_io(Interest::READABLE, receive).await?;
    Ok((open, file))
}

/// Whether the server had no place for the connection: other clients connect at the same time.
pub(crate) fn is_crowded(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | BrokenPipe | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unix_targets_have_a_socket() {
        for target in ["unix:/run/capstan", "unix:///run/capstan"] {
            assert_eq!(unix_socket(target), Some("/run/capstan".into()));
        }
        assert_eq!(unix_socket("http://localhost:7654"), None);
    }
}
