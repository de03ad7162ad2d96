//! The thread blocks of the tree and of load-balanced accumulation, and how many a device holds.

use crate::{
    curve::Group,
    device::{BlockShape, DeviceLimits},
    msm::launch::{PerGroup, SerialSumBlocks},
};

/// The most shares that three rounds of merging by warps combine. An H200 holds 33792 threads of
/// that kernel, but the few more would cost a fourth round.
pub const THREE_ROUND_SHARES: u32 = 1 << 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeBlocks {
    pub blocks: u32,
    pub threads: u32,
    /// Coordinates of each sum that a thread keeps in scratch.
    pub scratch_coordinates: u32,
}

impl TreeBlocks {
    /// As the kernels of `group` are compiled, one block per multiprocessor; `None` if the device
    /// has too little shared memory. Over Fp2 the arithmetic hides a second gather of both x
    /// coordinates, so they are not kept in scratch.
    pub fn of(group: Group, limits: &DeviceLimits) -> Option<Self> {
        let scratch_coordinates = PerGroup { g1: 3, g2: 1 }.of(group);
        let block = Self::block(group);
        let blocks = limits.multiprocessors;
        let threads = block.threads;
        limits.fits(block).then_some(Self { blocks, threads, scratch_coordinates })
    }

    /// A block of the tree: shared memory for five columns of two elements more than threads
    /// (kernels/batch/stage.cuh).
    pub fn block(group: Group) -> BlockShape {
        let threads = PerGroup { g1: 512, g2: 256 }.of(group);
        let shared_bytes = 5 * group.coordinate_bytes() as u32 * (threads + 2);
        BlockShape { threads, shared_bytes }
    }
}

/// The most shares of load-balanced accumulation: one per resident thread, so that there is no
/// second wave.
pub fn shares_max(group: Group, limits: &DeviceLimits) -> u32 {
    let wave = SerialSumBlocks::of(group).resident_threads(limits).max(1);
    let is_near = (THREE_ROUND_SHARES..THREE_ROUND_SHARES / 4 * 5).contains(&wave);
    if is_near { THREE_ROUND_SHARES } else { wave }
}
