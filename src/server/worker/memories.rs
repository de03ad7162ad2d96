//! The memory that all workers map: that of payloads, and regions of local clients.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Arc, Weak},
    time::Duration,
};

use tracing::warn;

use super::{
    link::WorkerLost,
    message::{ControlRequest, MapRequest},
    process::LiveWorker,
};
use crate::{
    region::{DeviceAccess, SharedMemory},
    sync::Mutex,
};

/// Time for a worker to map memory and to pin its beginning, which takes a tenth of a second.
const MAP_TIMEOUT: Duration = Duration::from_secs(20);

/// The shared memory, by its id.
#[derive(Default)]
pub struct SharedMemories(Mutex<BTreeMap<u64, MemoryToMap>>);

struct MemoryToMap {
    memory: Weak<SharedMemory>,
    /// The first bytes, which devices are to access directly.
    pinned_bytes: u64,
}

impl SharedMemories {
    /// Lets a worker that has just started map everything, then calls `serve`, after which it gets
    /// memory that is added.
    pub fn map_all(&self, worker: &LiveWorker, serve: impl FnOnce()) {
        let memories = self.0.lock();
        // A lost worker gets no runs.
        let _lost = memories.iter().try_for_each(|(id, memory)| memory.map(worker, *id));
        serve();
    }

    /// Adds memory, which the workers that `live` returns map.
    pub fn add(
        &self,
        memory: &Arc<SharedMemory>,
        pinned_bytes: u64,
        live: impl FnOnce() -> Vec<Arc<LiveWorker>>,
    ) {
        let mut memories = self.0.lock();
        let added = MemoryToMap { memory: Arc::downgrade(memory), pinned_bytes };
        for worker in live() {
            // A lost worker's successor maps all memory.
            let _lost = added.map(&worker, memory.id());
        }
        memories.insert(memory.id(), added);
    }

    /// Removes memory, which the workers that `live` returns unmap.
    pub fn remove(&self, id: u64, live: impl FnOnce() -> Vec<Arc<LiveWorker>>) {
        let mut memories = self.0.lock();
        memories.remove(&id);
        // Under the lock, so that no worker that maps all memory meanwhile is missed.
        let live = live();
        drop(memories);
        for worker in live {
            if let Ok(Err(reason)) = worker.link.control(&ControlRequest::Unmap(id), None) {
                warn!(reason, "a worker keeps memory that was released");
            }
        }
    }
}

impl MemoryToMap {
    fn map(&self, worker: &LiveWorker, id: u64) -> Result<(), WorkerLost> {
        let Some(memory) = self.memory.upgrade() else { return Ok(()) };
        let LiveWorker { link, facts, .. } = worker;
        let (bytes, pinned_bytes) = (memory.size() as u64, self.pinned_bytes);
        // A device that cannot pin such a mapping would access the memory through copies.
        let is_read = memory.access() == DeviceAccess::Read && facts.limits.pins_read_only;
        let access = if is_read { DeviceAccess::Read } else { DeviceAccess::ReadWrite };
        let is_watched = memory.is_watched();
        let request = MapRequest { memory: id, bytes, pinned_bytes, access, is_watched };
        let lost = |reason: &dyn Display| link.lose(&format_args!("cannot map memory: {reason}"));
        let file = memory.descriptor(access).map_err(|error| lost(&error))?;
        let request = ControlRequest::Map(request);
        let mapped = link.control_within(MAP_TIMEOUT, &request, Some(file))?;
        mapped.map(drop).map_err(|reason| lost(&reason))
    }
}
