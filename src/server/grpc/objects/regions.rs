//! Regions: memory shared with clients on the server's host. A call opens a region. A second socket
//! hands out its descriptor; the connection to it holds the region open. Other calls name parts.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, Interest},
    net::UnixStream,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use crate::grpc::{calls::call::CallContext, connections::listen::UnixSocket, state::ServerState};
use crate::{
    buffer::{Quota, QuotaPermit, RegionSlice, SharedRegion, no_memory},
    error::{Error, FieldProblem, Limit, Result},
    region::{REGION_ALIGNMENT, SharedMemory, send_descriptor},
    store::RegionToken,
    telemetry,
    wire::{
        decode::{RegionId, RegionPlace, RegionVector},
        v1,
    },
};

/// Connections that have not sent a token; further ones are closed, and clients try again. Each
/// user leaves a part of them to others.
const PENDING_MAX: u64 = 256;
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
    let executor = call.state.compute.executor.clone();
    let wiper = call.state.region_wiper.clone();
    // Touches and pins every page.
    let region = spawn_blocking(move || {
        let memory = Arc::new(SharedMemory::create(bytes as usize)?.watched()?);
        let pinning = executor.share_memory(&memory, memory.size());
        Ok::<_, io::Error>(SharedRegion::new(memory, pinning, permits, wiper))
    });
    let region = region.await.map_err(|_| Error::internal("opening a region panicked"))?;
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
    let held = region.memory().size() as u64;
    let bytes = count * encoding.width() as u64;
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
    let mut pending = PendingConnections::new();
    let mut connections = JoinSet::new();
    loop {
        let connection = socket.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok(user) = connection.peer_cred().map(|peer| peer.uid()) else { continue };
        let Ok(place) = pending.take_place(user) else { continue };
        let state = state.clone();
        connections.spawn(async move {
            if let Err(error) = hold_open(connection, &state, place).await {
                tracing::debug!(%error, "a region was not handed out");
            }
        });
    }
}

/// Connections that have not sent a token.
struct PendingConnections {
    all: Arc<Quota>,
    by_user: HashMap<u32, Arc<Quota>>,
}

impl PendingConnections {
    fn new() -> Self {
        Self { all: Quota::new(Limit::Regions, PENDING_MAX), by_user: HashMap::new() }
    }

    /// Errors: `Exhausted`, also if the user has more than others leave to each.
    fn take_place(&mut self, user: u32) -> Result<[QuotaPermit; 2]> {
        self.by_user.retain(|_, own| own.used() > 0);
        let new = || Quota::new(Limit::Regions, PENDING_MAX);
        let own = self.by_user.entry(user).or_insert_with(new);
        self.all.check_share(own.used(), 1, true)?;
        Ok([self.all.acquire(1)?, own.acquire(1)?])
    }
}

/// Hands out the region that the client asks for, and closes it with the connection.
async fn hold_open(
    mut connection: UnixStream,
    state: &ServerState,
    pending: [QuotaPermit; 2],
) -> io::Result<()> {
    let mut id = RegionId([0; 16]);
    let mut token = RegionToken::default();
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

    #[test]
    fn users_that_take_all_they_can_leave_places_to_others() {
        let mut pending = PendingConnections::new();
        let mut held = Vec::new();
        for user in 0..3 {
            let before = held.len();
            while let Ok(place) = pending.take_place(user) {
                held.push(place);
            }
            assert!(held.len() > before, "user {user} has no place");
        }
        assert_eq!(pending.by_user.len(), 3);
        drop(held);
        assert!(pending.take_place(3).is_ok());
        assert_eq!(pending.by_user.len(), 1, "users without connections are forgotten");
    }
}
