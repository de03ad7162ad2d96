//! The blocks of the tree and of equal shares, and how many of them a device holds at a time.

use crate::{
    curve::Group,
    device::{Block, DeviceLimits},
};

/// Threads whose runs three rounds of warps join. An H200 holds 33792 of the threads that share a
/// tail: these few more would cost a fourth round.
pub const THREE_ROUNDS: u32 = 1 << 15;

/// How the tree's kernels are launched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Batch {
    pub blocks: u32,
    pub threads: u32,
    /// Coordinates of a sum that a thread keeps in scratch.
    pub kept: u32,
}

impl Batch {
    /// As the kernels of `group` are compiled, a block on each multiprocessor; `None` if a block of
    /// the tree does not fit into the device's shared memory. Over Fp2 the
    /// arithmetic hides a second gather of both x, so they are not kept.
    pub fn of(group: Group, limits: &DeviceLimits) -> Option<Self> {
        let kept = match group {
            Group::G1 => 3,
            Group::G2 => 1,
        };
        let block = Self::block(group);
        let batch = Self { blocks: limits.multiprocessors, threads: block.threads, kept };
        limits.fits(block).then_some(batch)
    }

    /// A block of the tree: five columns, two elements longer than there are threads
    /// (kernels/batch/stage.cuh).
    pub fn block(group: Group) -> Block {
        let threads = match group {
            Group::G1 => 512,
            Group::G2 => 256,
        };
        let shared_bytes = 5 * group.coordinate_bytes() as u32 * (threads + 2);
        Block { threads, shared_bytes }
    }
}

/// The blocks that add equal shares: `kernels/msm/balanced.cu`.
pub struct ShareBlock {
    pub block: Block,
    /// How many of them a multiprocessor has registers for.
    by_registers: u32,
}

impl ShareBlock {
    pub fn of(group: Group) -> Self {
        // The next summand is in shared memory; in G2 the sum is, too.
        let (threads, elements, by_registers) = match group {
            Group::G1 => (128, 2, 2),
            Group::G2 => (64, 6, 4),
        };
        let shared_bytes = elements * group.coordinate_bytes() as u32 * threads;
        Self { block: Block { threads, shared_bytes }, by_registers }
    }

    /// Shares at most: as many as the device holds threads, so that there is no second wave.
    pub fn shares_max(&self, limits: &DeviceLimits) -> u32 {
        let wave = limits.wave(self.block, self.by_registers).max(1);
        if (THREE_ROUNDS..THREE_ROUNDS / 4 * 5).contains(&wave) { THREE_ROUNDS } else { wave }
    }
}
