//! Shares of memory with all workers.

use std::sync::Arc;

use super::pool::WorkerPool;
use crate::region::SharedMemory;

/// Memory that the workers map until this is dropped.
pub struct MemoryShare {
    pool: Arc<WorkerPool>,
    id: u64,
}

impl MemoryShare {
    /// Lets all workers map `memory`, and their devices access its first `pinned_bytes` bytes.
    pub fn new(pool: &Arc<WorkerPool>, memory: &Arc<SharedMemory>, pinned_bytes: u64) -> Self {
        pool.memories().add(memory, pinned_bytes, || pool.live());
        Self { pool: pool.clone(), id: memory.id() }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.pool.memories().remove(self.id, || self.pool.live());
    }
}
