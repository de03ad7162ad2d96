//! What all launches of `kernels/gf2` share.

use crate::device::{BlockShape, DeviceFault};

/// Threads of every block.
pub const THREADS: u32 = 256;
pub const BLOCK: BlockShape = BlockShape::threads(THREADS);

/// Blocks with one item per thread.
pub fn grid(items: u64) -> Result<u32, DeviceFault> {
    u32::try_from(items.div_ceil(THREADS.into())).map_err(|_| fault("too many rows"))
}

pub fn fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "gf2".into(), problem: problem.into() }
}
