//! Opens regions: memory that a server on the same host shares.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncWriteExt, Interest},
    net::UnixStream,
    task::spawn_blocking,
    time::timeout,
};
use tonic::Code;

use super::{
    Client,
    call::{CallBudget, CallFuture},
    error::ClientError,
};
use crate::{
    region::{self, SharedMemory},
    wire::v1,
};

/// Time for the server to hand out a region.
const HANDOUT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct ClientRegion {
    pub memory: SharedMemory,
    pub id: [u8; 16],
    /// The server releases the region when this is closed.
    _open: UnixStream,
}

impl Client {
    /// Opens a region of at least `bytes` bytes. `None` if the server shares no memory.
    ///
    /// Errors: `Refused`; `CannotConnect` if the server does not hand out the memory.
    pub(crate) fn open_region(&self, bytes: u64) -> CallFuture<'_, Option<ClientRegion>> {
        Box::pin(async move {
            let Some(socket) = unix_socket(&self.inner.target) else { return Ok(None) };
            let request = v1::OpenRegionRequest { bytes };
            let send = |request| async move { self.store().open_region(request).await };
            // One retry, for a region that is being released: ordinary memory will do.
            let mut call = CallBudget::new(self.inner.deadline, 1);
            let opened = match call.unary(request, send).await {
                Ok(opened) => opened,
                Err(error) if shares_nothing(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let path = region::socket_path(&socket);
            match map_region(&path, &opened, bytes).await {
                Ok(region) => Ok(Some(region)),
                // Only the server's own socket is in this container.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(ClientError::CannotConnect {
                    target: format!("unix:{}", path.display()),
                    problem: error.to_string(),
                }),
            }
        })
    }
}

/// Whether the server has no memory to share, or does not know regions.
fn shares_nothing(error: &ClientError) -> bool {
    matches!(error.code(), Code::ResourceExhausted | Code::PermissionDenied | Code::Unimplemented)
}

/// The path of a target on a Unix socket.
pub(crate) fn unix_socket(target: &str) -> Option<PathBuf> {
    let path = target.strip_prefix("unix:")?;
    Some(path.strip_prefix("//").unwrap_or(path).into())
}

/// Maps a region of at least `bytes`.
async fn map_region(
    path: &Path,
    opened: &v1::OpenRegionResponse,
    bytes: u64,
) -> io::Result<ClientRegion> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let id = opened.region_id.as_ref().try_into().map_err(|_| invalid())?;
    let ask = async {
        let mut open = UnixStream::connect(path).await?;
        open.write_all(&[&opened.region_id[..], &opened.token].concat()).await?;
        let receive = || region::receive_descriptor(&open);
        let file = open.async_io(Interest::READABLE, receive).await?;
        Ok::<_, io::Error>((open, file))
    };
    let (open, file) = timeout(HANDOUT_TIMEOUT, ask).await??;
    let len = usize::try_from(opened.bytes).ok().filter(|_| opened.bytes >= bytes);
    let len = len.ok_or_else(invalid)?;
    // Touches all pages.
    let memory = spawn_blocking(move || SharedMemory::map(file, len)).await;
    let memory = memory.map_err(io::Error::other)??;
    Ok(ClientRegion { memory, id, _open: open })
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
