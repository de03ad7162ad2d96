//! What the launches of all stages share.

use std::ops::Range;

use bytemuck::Pod;

use crate::{
    curve::Group,
    device::{ALIGN, BlockShape, DeviceFault, DeviceLimits, DeviceSlice},
};

/// Plans consecutive regions that begin at multiples of [`ALIGN`].
#[derive(Default)]
pub struct RegionPlanner {
    pub bytes: u64,
}

impl RegionPlanner {
    pub fn add(&mut self, bytes: u64) -> Range<u64> {
        let start = self.bytes;
        self.bytes = (start + bytes).next_multiple_of(ALIGN);
        start..self.bytes
    }
}

/// Casts a range of bytes to elements; `None` if `memory` is too short.
pub fn region<T: Pod>(
    memory: DeviceSlice<'_, u8>,
    bytes: Range<u64>,
) -> Option<DeviceSlice<'_, T>> {
    memory.slice(bytes.start as usize, (bytes.end - bytes.start) as usize)?.cast()
}

/// log2, rounded up.
pub fn lg_ceil(count: impl Into<u64>) -> u32 {
    count.into().next_power_of_two().ilog2()
}

pub fn kernel_fault(kernel: &str, problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: kernel.to_owned(), problem: problem.to_owned() }
}

pub struct PerGroup<T> {
    pub g1: T,
    pub g2: T,
}

impl<T> PerGroup<T> {
    pub fn load<E>(load: impl Fn(Group) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self { g1: load(Group::G1)?, g2: load(Group::G2)? })
    }

    pub fn get(&self, group: Group) -> &T {
        match group {
            Group::G1 => &self.g1,
            Group::G2 => &self.g2,
        }
    }
}

impl<T: Copy> PerGroup<T> {
    pub const fn of(self, group: Group) -> T {
        match group {
            Group::G1 => self.g1,
            Group::G2 => self.g2,
        }
    }
}

/// The blocks of kernels whose threads each sum points one after the other in XYZZ coordinates:
/// shares (`kernels/msm/load_balanced.cu`) and slices (`kernels/msm/reduce.cu`).
pub struct SerialSumBlocks {
    pub block: BlockShape,
    /// Blocks per multiprocessor that registers allow.
    blocks_by_registers: u32,
}

impl SerialSumBlocks {
    pub fn of(group: Group) -> Self {
        // Shared memory holds the next point; in G2 also the sum.
        let (threads, elements, blocks_by_registers) =
            PerGroup { g1: (128, 2, 2), g2: (64, 6, 4) }.of(group);
        let shared_bytes = elements * group.coordinate_bytes() as u32 * threads;
        Self { block: BlockShape { threads, shared_bytes }, blocks_by_registers }
    }

    pub fn resident_threads(&self, limits: &DeviceLimits) -> u32 {
        limits.resident_threads(self.block, self.blocks_by_registers)
    }
}
