//! A connected client: its connections, and the limits of its server.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    affinity::{AffinityKey, CallRoute, VectorKeys},
    same_server::SameServer,
};
use crate::wire::v1::{
    admin_client::AdminClient, compute_client::ComputeClient, store_client::StoreClient,
};
use crate::{
    call::CallBudget,
    error::Result,
    staging::StagingPool,
    transfer::{
        copy_pool::CopyPool,
        frames::{FrameChannel, RESPONSE_BYTES_MAX},
        payload::SpareChunks,
    },
    types::UploadKey,
};

/// A connected client. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Connections>,
    /// The key of all calls, instead of those that they would have.
    pub(crate) affinity: Option<AffinityKey>,
}

pub(crate) struct Connections {
    pub target: String,
    pub channels: Vec<FrameChannel>,
    /// Which of them reach the same server.
    pub server: Arc<SameServer>,
    pub vector_keys: VectorKeys,
    pub next_lane: AtomicUsize,
    pub deadline: Option<Duration>,
    pub retries: u32,
    /// Whether calls can move to other servers.
    pub is_of_fleet: bool,
    /// The server's limit on the payload bytes of one message.
    pub message_bytes: u64,
    pub chunk_bytes: u64,
    pub copies: CopyPool,
    pub spare_chunks: SpareChunks,
    pub staging: Arc<StagingPool>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {} connections)", self.inner.target, self.inner.channels.len())
    }
}

impl Client {
    /// Begins a call; its deadline counts from now.
    ///
    /// Errors: those of [`Self::check_process`].
    pub(crate) fn begin_call(&self, deadline: Option<Duration>) -> Result<CallBudget> {
        self.check_process()?;
        let mut call = CallBudget::new(deadline.or(self.inner.deadline), self.inner.retries);
        call.leave_draining(self.inner.is_of_fleet);
        Ok(call)
    }

    /// Calls check this before they use threads, which are in the parent process only.
    ///
    /// Errors: `Refused` with code `FAILED_PRECONDITION` in a fork of the process that connected.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.inner.server.refusal_in_fork().map_or(Ok(()), |status| Err(status.into()))
    }

    pub(crate) fn next_lane(&self) -> usize {
        self.inner.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    /// The same client, whose calls all carry the metadata `capstan-affinity: NAME`: several
    /// servers behind a proxy that chooses by it then look like one. Use it for jobs over several
    /// objects, such as a proof, and for vectors that several jobs use.
    ///
    /// Without a name, the key of a call is the id of its first bases, matrix or stored program, or
    /// a hash of the id of its stored vector or upload; a list of objects has a random one, and
    /// other calls have none. Proxies see the name and may log it: it must not be secret. It tells
    /// them which calls belong together.
    ///
    /// Errors: `InvalidSetting` unless the name has 1 to 128 visible ASCII characters.
    pub fn with_affinity(&self, name: &str) -> Result<Self> {
        Ok(Self { inner: self.inner.clone(), affinity: Some(AffinityKey::named(name)?) })
    }

    /// The route of calls that belong to `key`.
    pub(crate) fn route(&self, key: impl FnOnce() -> AffinityKey) -> CallRoute {
        self.affinity.clone().unwrap_or_else(key).into()
    }

    /// The route of calls that any server may serve.
    pub(crate) fn free_route(&self) -> CallRoute {
        self.affinity.clone().map(CallRoute::from).unwrap_or_default()
    }

    /// The route of calls that use a vector or an upload.
    pub(crate) fn vector_route(&self, id: UploadKey) -> CallRoute {
        self.route(|| self.inner.vector_keys.get(id))
    }

    fn channel(&self, lane: usize, route: &CallRoute) -> FrameChannel {
        let Connections { channels, server, .. } = &*self.inner;
        let channel = channels[server.connection(lane)].clone();
        FrameChannel { route: route.clone(), ..channel }
    }

    pub(crate) fn admin(&self) -> AdminClient<FrameChannel> {
        AdminClient::new(self.channel(self.next_lane(), &self.free_route()))
    }

    pub(crate) fn compute(&self, route: &CallRoute) -> ComputeClient<FrameChannel> {
        self.compute_on(self.next_lane(), route)
    }

    pub(crate) fn store(&self, route: &CallRoute) -> StoreClient<FrameChannel> {
        self.store_on(self.next_lane(), route)
    }

    pub(crate) fn store_on(&self, lane: usize, route: &CallRoute) -> StoreClient<FrameChannel> {
        StoreClient::new(self.channel(lane, route)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn compute_on(&self, lane: usize, route: &CallRoute) -> ComputeClient<FrameChannel> {
        ComputeClient::new(self.channel(lane, route)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// Number of connections for a payload of `bytes`: one per 2 MiB, because below that another
    /// connection costs more than it gains.
    pub(crate) fn lane_count(&self, bytes: u64) -> u32 {
        let useful = u32::try_from(bytes >> 21).unwrap_or(u32::MAX);
        useful.clamp(1, self.inner.channels.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::{Group, PointEncoding, PutOptions};

    #[tokio::test]
    async fn a_client_of_the_parent_process_begins_no_call() {
        let channel = FrameChannel::of_parent_process();
        let target = "unix:/socket".to_owned();
        let inner = Connections {
            staging: StagingPool::new(&target, 0),
            target,
            server: channel.server.clone(),
            channels: vec![channel],
            vector_keys: VectorKeys::default(),
            next_lane: AtomicUsize::new(0),
            deadline: None,
            retries: 0,
            is_of_fleet: false,
            message_bytes: 1,
            chunk_bytes: 1,
            copies: CopyPool::default(),
            spare_chunks: SpareChunks::default(),
        };
        let client = Client { inner: Arc::new(inner), affinity: None };
        let point = [0; 48];
        let put =
            client.put_encoded(Group::G1, PointEncoding::Compressed, &point, PutOptions::default());
        let refusals =
            [client.begin_call(None).err(), client.open_region(1).await.err(), put.await.err()];
        for refused in refusals {
            assert_eq!(refused.expect("a refusal").code(), Code::FailedPrecondition);
        }
    }
}
