//! Payload memory as in a server.

use capstan::{buffer::PayloadPool, engine::cuda::CudaEngine};

/// The limit of a server with 128 GiB of memory.
const BYTES_IN_FLIGHT_MAX: u64 = 64 << 30;

/// Memory of which the first `pinned_bytes` bytes are pinned.
pub fn payload_pool(engine: &CudaEngine, pinned_bytes: usize) -> PayloadPool {
    let pool = PayloadPool::new(BYTES_IN_FLIGHT_MAX, pinned_bytes as u64);
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    if pinned_bytes > 0 {
        let pinning = engine.pin_memory(pool.memory(), pinned_bytes);
        pool.hold_pinning(pinning.expect("the driver pins memory"));
    }
    pool
}
