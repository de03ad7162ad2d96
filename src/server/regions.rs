//! Regions: memory shared with clients on the server's host. A call opens a region. A second socket
//! hands out its descriptor; the connection to it holds the region open. Other calls name parts.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, Interest},
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use super::{call::CallContext, listen::UnixSocket, state::ServerState};
use crate::{
    buffer::{Quota, QuotaPermit, RegionSlice, SharedRegion, no_memory},
    error::{Error, FieldProblem, Limit, Result},
    region::{REGION_ALIGNMENT, SharedMemory, send_descriptor},
    store::{RegionToken, USER_REGIONS_MAX},
    telemetry,
    wire::{
        decode::{RegionId, RegionPlace, RegionVector},
        v1,
    },
};

/// Connections that have not sent a token. Others wait, shorter than a client does.
const PENDING_MAX: usize = 256;
/// Those of one user: further ones are closed. No user has more regions.
const USER_PENDING_MAX: u64 = USER_REGIONS_MAX;
/// Time for a client to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Errors: `LocalOnly` over TCP; `Invalid`; `Exhausted`; `Draining`.
pub async fn open(call: &CallContext, bytes: u64) -> Result<v1::OpenRegionResponse> {
    let user = call.caller.uid().ok_or(Error::LocalOnly)?;
    if bytes == 0 {
        return Err(Error::field("bytes", FieldProblem::Zero));
    }
    call.admit(0, 0)?;
    // A size that cannot be rounded up exceeds every limit.
    let bytes = bytes.checked_next_multiple_of(REGION_ALIGNMENT).unwrap_or(u64::MAX);
    let permits = call.state.regions.admit(&call.tenant, user, bytes, call.has_others());
    let permits = permits.inspect_err(telemetry::count_refusal)?;
    let (executor, wiper) = (call.state.compute.executor.clone(), call.state.region_wiper.clone());
    // Touches and pins every page.
    let region = spawn_blocking(move || {
        let memory = Arc::new(SharedMemory::create(bytes as usize)?);
        let pinning = executor.share_memory(&memory, memory.size());
        Ok::<_, io::Error>(SharedRegion::new(memory, pinning, permits, wiper))
    });
    let region = region.await.map_err(|_| Error::Internal("opening a region panicked".into()))?;
    let failed = |error| no_memory("cannot create shared memory", &error);
    let (id, token) = call.state.regions.add(region.map_err(failed)?, user)?;
    let [region_id, token] = [id.0, token].map(|bytes| Bytes::copy_from_slice(&bytes));
    Ok(v1::OpenRegionResponse { region_id, token, bytes })
}

/// The part of a region that holds `count` elements.
///
/// Errors: `LocalOnly`; `Invalid` for an unknown region or a part beyond its end.
pub fn find_slice(call: &CallContext, vector: RegionVector, count: u64) -> Result<RegionSlice> {
    let RegionVector { place: RegionPlace { id, offset }, encoding } = vector;
    let user = call.caller.uid().ok_or(Error::LocalOnly)?;
    let unknown = |_| Error::field("region_id", FieldProblem::UnknownRegion);
    let region = call.state.regions.get(id, user).map_err(unknown)?;
    let (held, bytes) = (region.memory().size() as u64, count * encoding.width() as u64);
    let Some(max) = held.checked_sub(bytes) else {
        let got = held / encoding.width() as u64;
        let too_short = FieldProblem::Length { expected: count, got };
        return Err(Error::field("region_id", too_short));
    };
    let beyond = || Error::field("offset", FieldProblem::TooLarge { max });
    RegionSlice::new(region, offset, bytes).ok_or_else(beyond)
}

/// Hands out the descriptors of regions.
pub async fn serve(socket: Arc<UnixSocket>, state: Arc<ServerState>) {
    let pending = Arc::new(Semaphore::new(PENDING_MAX));
    let mut connections = JoinSet::new();
    let mut by_user = HashMap::new();
    loop {
        // Never closed.
        let Ok(place) = pending.clone().acquire_owned().await else { return };
        let connection = socket.accept().await;
        while connections.try_join_next().is_some() {}
        let Some(of_user) = take_place_of_user(&mut by_user, &connection) else { continue };
        let (permit, state) = ((place, of_user), state.clone());
        connections.spawn(async move {
            if let Err(error) = hold_open(connection, &state, permit).await {
                tracing::debug!(%error, "a region was not handed out");
            }
        });
    }
}

/// `None` if the user has too many connections that have not sent a token.
fn take_place_of_user(
    by_user: &mut HashMap<u32, Arc<Quota>>,
    connection: &UnixStream,
) -> Option<QuotaPermit> {
    by_user.retain(|_, quota| quota.used() > 0);
    let user = connection.peer_cred().ok()?.uid();
    let new = || Quota::new(Limit::Regions, USER_PENDING_MAX);
    by_user.entry(user).or_insert_with(new).acquire(1).ok()
}

/// Hands out the region that the client asks for, and closes it with the connection.
async fn hold_open(
    mut connection: UnixStream,
    state: &ServerState,
    pending: (OwnedSemaphorePermit, QuotaPermit),
) -> io::Result<()> {
    let (mut id, mut token) = (RegionId([0; 16]), RegionToken::default());
    let asked = async {
        connection.read_exact(&mut id.0).await?;
        connection.read_exact(&mut token).await
    };
    timeout(TOKEN_TIMEOUT, asked).await??;
    let user = connection.peer_cred()?.uid();
    let Some(region) = state.regions.grant(id, &token, user) else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    drop(pending);
    let send = || send_descriptor(&connection, region.memory().file());
    let sent = connection.async_io(Interest::WRITABLE, send).await;
    drop(region);
    if sent.is_ok() {
        // The client closes the connection, or sends bytes after the token.
        let _ended = connection.read_u8().await;
    }
    state.regions.close(id);
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_has_few_connections_without_a_token() {
        let (connection, _client) = UnixStream::pair().unwrap();
        let mut by_user = HashMap::from([(u32::MAX, Quota::new(Limit::Regions, 1))]);
        let mut take = || take_place_of_user(&mut by_user, &connection);
        let places: Vec<_> = (0..USER_PENDING_MAX).map(|_| take().unwrap()).collect();
        assert!(take().is_none());
        drop(places);
        assert!(take().is_some());
        assert_eq!(by_user.len(), 1, "users without connections are forgotten");
    }
}
