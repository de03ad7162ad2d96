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
    call::CallBudget,
    copy_pool::CopyPool,
    frames::{FrameChannel, RESPONSE_BYTES_MAX},
    payload::SpareChunks,
    same_server::SameServer,
    staging::StagingPool,
};
use crate::wire::v1::{
    admin_client::AdminClient, compute_client::ComputeClient, store_client::StoreClient,
};

/// A connected client. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Connections>,
}

pub(crate) struct Connections {
    pub target: String,
    pub channels: Vec<FrameChannel>,
    /// Which of them reach the same server.
    pub server: Arc<SameServer>,
    pub next_lane: AtomicUsize,
    pub deadline: Option<Duration>,
    pub retries: u32,
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
    pub(crate) fn begin_call(&self, deadline: Option<Duration>) -> CallBudget {
        CallBudget::new(deadline.or(self.inner.deadline), self.inner.retries)
    }

    pub(crate) fn next_lane(&self) -> usize {
        self.inner.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    fn channel(&self, lane: usize) -> FrameChannel {
        let Connections { channels, server, .. } = &*self.inner;
        channels[server.connection(lane)].clone()
    }

    pub(crate) fn admin(&self) -> AdminClient<FrameChannel> {
        AdminClient::new(self.channel(self.next_lane()))
    }

    pub(crate) fn compute(&self) -> ComputeClient<FrameChannel> {
        self.compute_on(self.next_lane())
    }

    pub(crate) fn store(&self) -> StoreClient<FrameChannel> {
        self.store_on(self.next_lane())
    }

    pub(crate) fn store_on(&self, lane: usize) -> StoreClient<FrameChannel> {
        StoreClient::new(self.channel(lane)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn compute_on(&self, lane: usize) -> ComputeClient<FrameChannel> {
        ComputeClient::new(self.channel(lane)).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// Number of connections for a payload of `bytes`: one per 2 MiB, because below that another
    /// connection costs more than it gains.
    pub(crate) fn lane_count(&self, bytes: u64) -> u32 {
        let useful = u32::try_from(bytes >> 21).unwrap_or(u32::MAX);
        useful.clamp(1, self.inner.channels.len() as u32)
    }
}
