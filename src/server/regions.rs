//! Regions: memory shared with clients on the server's host. A call opens a region; a connection to
//! the socket beside the server's hands out its descriptor, and holds the region open.

use std::{io, sync::Arc};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, Interest},
    net::UnixStream,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use super::{
    call::CallContext,
    listen::{UnixSocket, admit_connection},
    state::ServerState,
};
use crate::{
    buffer::SharedRegion,
    error::{Error, FieldProblem, Result},
    region::{REGION_ALIGNMENT, SharedMemory, send_descriptor},
    store::{GrantedRegion, RegionToken},
    telemetry,
    wire::{decode::RegionId, v1},
};

/// Errors: `LocalOnly` over TCP; `Invalid`; `Exhausted`; `Draining`.
pub async fn open(call: &CallContext, bytes: u64) -> Result<v1::OpenRegionResponse> {
    let user = call.peer.local_user.ok_or(Error::LocalOnly)?;
    if bytes == 0 {
        return Err(Error::field("bytes", FieldProblem::Zero));
    }
    call.admit(0, 0)?;
    // Too large for the limit, too, if it cannot be rounded.
    let bytes = bytes.checked_next_multiple_of(REGION_ALIGNMENT).unwrap_or(u64::MAX);
    let permit = call.state.regions.bytes().acquire(bytes);
    let permit = permit.inspect_err(telemetry::count_refusal)?;
    let engine = call.state.compute.engine.clone();
    // Touches and pins every page.
    let region = spawn_blocking(move || {
        let memory = Arc::new(SharedMemory::create(bytes as usize)?);
        let pinning = engine.pin_memory(&memory);
        Ok::<_, io::Error>(SharedRegion::new(memory, pinning, permit))
    });
    let region = region.await.map_err(|_| Error::Internal("opening a region panicked".into()))?;
    let failed = |error| Error::Internal(format!("cannot create shared memory: {error}"));
    let (id, token) = call.state.regions.add(region.map_err(failed)?, user)?;
    let [region_id, token] = [id.0, token].map(|bytes| Bytes::copy_from_slice(&bytes));
    Ok(v1::OpenRegionResponse { region_id, token, bytes })
}

/// Hands out the descriptors of regions.
pub async fn serve(socket: Arc<UnixSocket>, state: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    loop {
        let connection = socket.accept().await;
        while connections.try_join_next().is_some() {}
        if let Some(permit) = admit_connection(&state) {
            let state = state.clone();
            connections.spawn(async move {
                if let Err(error) = hold_open(connection, &state).await {
                    tracing::debug!(%error, "a region was not handed out");
                }
                drop(permit);
            });
        }
    }
}

/// Hands out the region that the client asks for, and closes it with the connection.
async fn hold_open(mut connection: UnixStream, state: &ServerState) -> io::Result<()> {
    let (mut id, mut token) = (RegionId([0; 16]), RegionToken::default());
    let asked = async {
        connection.read_exact(&mut id.0).await?;
        connection.read_exact(&mut token).await
    };
    timeout(state.settings.handshake_timeout, asked).await??;
    let user = connection.peer_cred()?.uid();
    let granted = state.regions.grant(id, &token, user);
    let Some(GrantedRegion { region, mut is_open }) = granted else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    let sent = connection
        .async_io(Interest::WRITABLE, || send_descriptor(&connection, region.memory().file()))
        .await;
    if sent.is_ok() {
        tokio::select! {
            // Closed, or more bytes than the protocol has.
            _ended = connection.read_u8() => {}
            // Fails when the region is dropped, which is the signal.
            _dropped = is_open.changed() => {}
        }
    }
    state.regions.close(id);
    sent
}
