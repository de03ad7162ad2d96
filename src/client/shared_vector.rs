//! Vectors in memory that a server on the same host reads and writes.

use std::{
    fmt, io, mem,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    time::Duration,
};

use ark_ff::Zero;
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::UnixStream,
    task::spawn_blocking,
    time::timeout,
};
use tonic::Code;
use zeroize::Zeroizing;

use super::{
    Client, Fr,
    call::{CallBudget, CallFuture},
    error::{ClientError, Result},
};
use crate::{
    curve::layout::{fr_from_bytes, fr_from_bytes_mut},
    error::FieldProblem,
    region::{self, SharedMemory},
    wire::v1,
};

/// Time for the server to hand out a region.
const HANDOUT_TIMEOUT: Duration = Duration::from_secs(5);

/// A vector that runs of programs read and write in place, if the server is on the same host: its
/// elements are not copied into messages. Dereferences to its elements.
///
/// A run that writes to it owns it, and returns it in its result. The server wipes it after it is
/// dropped. If the server ends first, the elements stay, but runs fail: allocate a new vector.
pub struct SharedVector {
    len: usize,
    memory: VectorMemory,
}

enum VectorMemory {
    Region(ClientRegion),
    /// The server shares no memory: runs send and receive the elements.
    Own(Zeroizing<Vec<Fr>>),
}

struct ClientRegion {
    memory: SharedMemory,
    id: [u8; 16],
    /// The server releases the region when this is closed.
    _open: UnixStream,
}

impl Client {
    /// Allocates a vector of `len` zeros, in memory that the server shares if it is reached over
    /// its Unix socket and has some left, and in ordinary memory otherwise. Sharing is slow, since
    /// both processes touch every page, and takes at least 2 MiB and a connection: use a vector for
    /// many runs.
    ///
    /// Errors: `InvalidInput` if there is no memory for `len` elements; `Refused`;
    /// `CannotConnect` if the server does not hand out the memory.
    pub async fn alloc_vector(&self, len: usize) -> Result<SharedVector> {
        let max = isize::MAX as usize / size_of::<Fr>();
        let no_memory = || ClientError::input("len", FieldProblem::TooLarge { max: max as u64 });
        if len > max {
            return Err(no_memory());
        }
        let memory = match self.open_region(len).await? {
            Some(region) => VectorMemory::Region(region),
            None => {
                let mut elements = Zeroizing::new(Vec::new());
                elements.try_reserve_exact(len).map_err(|_| no_memory())?;
                elements.resize(len, Fr::zero());
                VectorMemory::Own(elements)
            }
        };
        Ok(SharedVector { len, memory })
    }

    /// `None` if the server shares no memory.
    fn open_region(&self, len: usize) -> CallFuture<'_, Option<ClientRegion>> {
        Box::pin(async move {
            let Some(socket) = unix_socket(&self.inner.target) else { return Ok(None) };
            let bytes = (size_of::<Fr>() * len.max(1)) as u64;
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
fn unix_socket(target: &str) -> Option<PathBuf> {
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

impl SharedVector {
    /// Whether the server reads and writes the vector in place.
    pub fn is_shared(&self) -> bool {
        self.region_id().is_some()
    }

    /// Replaces the elements by the same number of others. Returns the old ones, or none if they
    /// were in a region.
    pub(crate) fn replace(&mut self, elements: Zeroizing<Vec<Fr>>) -> Zeroizing<Vec<Fr>> {
        match &mut self.memory {
            VectorMemory::Region(_) => {
                self.copy_from_slice(&elements);
                Zeroizing::default()
            }
            VectorMemory::Own(old) => mem::replace(old, elements),
        }
    }

    /// The region that begins with the vector.
    pub(crate) fn region_id(&self) -> Option<[u8; 16]> {
        match &self.memory {
            VectorMemory::Region(region) => Some(region.id),
            VectorMemory::Own(_) => None,
        }
    }
}

impl Deref for SharedVector {
    type Target = [Fr];

    fn deref(&self) -> &[Fr] {
        match &self.memory {
            // Pages are aligned and whole.
            VectorMemory::Region(region) => {
                &fr_from_bytes(region.memory.bytes()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

impl DerefMut for SharedVector {
    fn deref_mut(&mut self) -> &mut [Fr] {
        match &mut self.memory {
            VectorMemory::Region(region) => {
                &mut fr_from_bytes_mut(region.memory.bytes_mut()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

// Elements may be secret witness data: only their number is printed.
impl fmt::Debug for SharedVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_shared() { "shared" } else { "not shared" };
        write!(f, "SharedVector({} Fr, {place})", self.len)
    }
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
