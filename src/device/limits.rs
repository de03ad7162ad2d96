//! What kernels may use of a device. Plans depend on this and on nothing else of a device, so they
//! can be made and tested without one.

use super::Block;

/// What a device has for kernels, as the driver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceLimits {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block may be given.
    pub block_shared_bytes: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_bytes: u32,
    /// Bytes of shared memory that each block takes in addition to what it is given.
    pub reserved_shared_bytes: u32,
    /// Threads that a multiprocessor holds at a time.
    pub threads: u32,
    /// Blocks that a multiprocessor holds at a time.
    pub blocks: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: u32,
}

impl DeviceLimits {
    /// An H200, on which constants and costs were measured.
    pub const H200: Self = Self {
        multiprocessors: 132,
        block_shared_bytes: 227 << 10,
        shared_bytes: 228 << 10,
        reserved_shared_bytes: 1 << 10,
        threads: 2048,
        blocks: 32,
        l2_bytes: 60 << 20,
    };

    /// Whether a block may be given that much shared memory.
    pub const fn fits(&self, block: Block) -> bool {
        block.shared_bytes <= self.block_shared_bytes
    }

    /// Blocks that a multiprocessor holds at a time, by threads and shared memory; registers are
    /// not looked at. 0 if the block does not fit.
    pub fn resident_blocks(&self, block: Block) -> u32 {
        if !self.fits(block) {
            return 0;
        }
        let by_shared = self.shared_bytes / (block.shared_bytes + self.reserved_shared_bytes);
        by_shared.min(self.threads / block.threads.max(1)).min(self.blocks)
    }

    /// Threads that the device holds at a time, of kernels whose registers allow `blocks` such
    /// blocks on a multiprocessor; 0 if the block does not fit.
    pub fn wave(&self, block: Block, blocks: u32) -> u32 {
        self.multiprocessors * self.resident_blocks(block).min(blocks) * block.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded_by_threads_shared_memory_and_their_number() {
        let limits = DeviceLimits::H200;
        let blocks =
            |threads, shared_bytes| limits.resident_blocks(Block { threads, shared_bytes });
        assert_eq!(blocks(1024, 0), 2);
        assert_eq!(blocks(1024, 113 << 10), 2);
        assert_eq!(blocks(1024, 114 << 10), 1);
        assert_eq!(blocks(128, 227 << 10), 1);
        assert_eq!(blocks(128, 228 << 10), 0);
        assert_eq!(blocks(32, 0), 32);
        assert_eq!(limits.wave(Block::of(128), 2), 132 * 256);
    }
}
