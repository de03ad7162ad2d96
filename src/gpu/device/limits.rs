//! Limits of a device for kernels. Plans depend on nothing else of a device, so they can be made
//! and tested without one.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl BlockShape {
    pub const fn threads(threads: u32) -> Self {
        Self { threads, shared_bytes: 0 }
    }
}

/// A device's resources for kernels, as the driver reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceLimits {
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block can use.
    pub block_shared_bytes: u32,
    /// Bytes of shared memory per multiprocessor.
    pub shared_bytes: u32,
    /// Bytes of shared memory reserved per block, in addition to what it requests.
    pub reserved_shared_bytes: u32,
    /// Threads resident on a multiprocessor at a time.
    pub resident_threads_max: u32,
    /// Blocks resident on a multiprocessor at a time.
    pub resident_blocks_max: u32,
    pub l2_bytes: u32,
    /// The maximum clock of the multiprocessors. For models of time: no plan depends on it.
    pub clock_khz: u32,
    /// Whether it has instructions that multiply matrices of bits.
    pub has_bit_products: bool,
    /// Whether it can access host memory that its process maps only for reading.
    pub pins_read_only: bool,
}

impl DeviceLimits {
    /// An H200, on which constants and costs were measured.
    pub const H200: Self = Self {
        multiprocessors: 132,
        block_shared_bytes: 227 << 10,
        shared_bytes: 228 << 10,
        reserved_shared_bytes: 1 << 10,
        resident_threads_max: 2048,
        resident_blocks_max: 32,
        l2_bytes: 60 << 20,
        clock_khz: 1_980_000,
        has_bit_products: true,
        pins_read_only: true,
    };

    /// How many times as long as on an H200 a chain of dependent instructions takes: 1 if the
    /// driver reports no clock.
    pub fn slower_clock(&self) -> f64 {
        match self.clock_khz {
            0 => 1.0,
            clock_khz => f64::from(Self::H200.clock_khz) / f64::from(clock_khz),
        }
    }

    /// How many times as long as on an H200 work takes that occupies all multiprocessors.
    pub fn slower_throughput(&self) -> f64 {
        let multiprocessors = f64::from(self.multiprocessors.max(1));
        self.slower_clock() * f64::from(Self::H200.multiprocessors) / multiprocessors
    }

    /// Whether a block may use that much shared memory.
    pub const fn fits(&self, block: BlockShape) -> bool {
        block.shared_bytes <= self.block_shared_bytes
    }

    /// Blocks resident on a multiprocessor at a time, limited by threads and shared memory but not
    /// by registers. 0 if the block does not fit.
    pub fn resident_blocks(&self, block: BlockShape) -> u32 {
        if !self.fits(block) {
            return 0;
        }
        let by_shared = self.shared_bytes / (block.shared_bytes + self.reserved_shared_bytes);
        by_shared
            .min(self.resident_threads_max / block.threads.max(1))
            .min(self.resident_blocks_max)
    }

    /// Threads resident on the device at a time if registers allow `blocks` blocks on a
    /// multiprocessor; 0 if the block does not fit.
    pub fn resident_threads(&self, block: BlockShape, blocks: u32) -> u32 {
        self.multiprocessors * self.resident_blocks(block).min(blocks) * block.threads
    }
}
