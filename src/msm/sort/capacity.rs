//! Sizes of the sort's tiles and blocks, by the shared memory of a device.

use crate::device::{BlockShape, DeviceLimits};

/// log2 of the digits per tile, and threads of the block that sorts it: `msm_sort_tiles_*` in
/// kernels/msm/sort.cu.
const TILES: [(u32, u32); 3] = [(14, 1024), (13, 1024), (12, 512)];

/// Blocks of `msm_partition`, by the shared memory they stage digits in.
const PARTITIONS: [BlockShape; 3] = [
    BlockShape { threads: 256, shared_bytes: 40 << 10 },
    BlockShape { threads: 512, shared_bytes: 73 << 10 },
    BlockShape { threads: 512, shared_bytes: 111 << 10 },
];

/// log2 of the buckets per bin: one block configuration for bins up to the first size, one for
/// larger bins.
const LOW_BITS: [u32; 2] = [11, 12];

/// Limits of the sort's blocks on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortCapacity {
    /// log2 of the digits that a block sorts in shared memory.
    pub lg_tile: u32,
    /// Threads of that block.
    pub(super) tile_threads: u32,
    /// log2 of the most buckets per bin.
    pub(super) low_bits_max: u32,
    /// The most bytes of dynamic shared memory for `msm_partition`.
    pub(super) partition_shared_max: u32,
}

impl SortCapacity {
    /// The tiles and blocks with the most resident threads; of equals the largest, since larger
    /// tiles write longer runs. 1024 partitioning threads are enough: on an H200 they were faster
    /// with 111 KiB per block from 2^22 on than 1536 threads with 73 KiB.
    pub fn of(limits: &DeviceLimits) -> Self {
        let resident = |block: BlockShape| limits.resident_blocks(block) * block.threads;
        // Of several maxima, `max_by_key` takes the last.
        let tiles = TILES.into_iter().rev();
        let best = tiles
            .max_by_key(|(lg_tile, threads)| resident(sort_block(*lg_tile, *threads, LOW_BITS[0])));
        let (lg_tile, tile_threads) = best.unwrap_or(TILES[TILES.len() - 1]);
        let fits = |low_bits: &u32| limits.fits(sort_block(lg_tile, tile_threads, *low_bits));
        let low_bits_max = LOW_BITS.into_iter().rfind(fits).unwrap_or(LOW_BITS[0]);
        let partition = PARTITIONS.into_iter().max_by_key(|block| resident(*block).min(1024));
        let partition_shared_max = partition.unwrap_or(PARTITIONS[0]).shared_bytes;
        Self { lg_tile, tile_threads, low_bits_max, partition_shared_max }
    }

    /// The kernel that sorts tiles of this size.
    pub(super) fn sort_kernel(&self) -> String {
        format!("msm_sort_tiles_{}k", (1 << self.lg_tile) >> 10)
    }

    /// Its blocks, by log2 of the buckets per bin. The largest comes last: loading a kernel sets
    /// the shared memory limit of its function.
    pub(super) fn sort_blocks(&self) -> impl Iterator<Item = (u32, BlockShape)> {
        let Self { lg_tile, tile_threads, low_bits_max, .. } = *self;
        let fitting = LOW_BITS.into_iter().filter(move |low_bits| *low_bits <= low_bits_max);
        fitting.map(move |low_bits| (low_bits, sort_block(lg_tile, tile_threads, low_bits)))
    }

    /// Blocks of `msm_partition`, the largest last.
    pub(super) fn partition_blocks(&self) -> impl Iterator<Item = BlockShape> {
        let most = self.partition_shared_max;
        PARTITIONS.into_iter().filter(move |block| block.shared_bytes <= most)
    }
}

/// Six bytes per digit, eight per bucket, and a few words.
const fn sort_block(lg_tile: u32, threads: u32, low_bits: u32) -> BlockShape {
    BlockShape { threads, shared_bytes: (6 << lg_tile) + (8 << low_bits) + 4 + 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_limits_tiles_and_blocks() {
        let h200 = DeviceLimits::H200;
        let a100 = DeviceLimits { block_shared_bytes: 163 << 10, shared_bytes: 164 << 10, ..h200 };
        let rtx4090 = DeviceLimits {
            block_shared_bytes: 99 << 10,
            shared_bytes: 100 << 10,
            resident_threads_max: 1536,
            resident_blocks_max: 24,
            ..h200
        };
        let small = DeviceLimits { block_shared_bytes: 48 << 10, shared_bytes: 64 << 10, ..h200 };
        for (limits, lg_tile, low_bits_max, partition_kib) in
            [(h200, 14, 12, 111), (a100, 13, 12, 73), (rtx4090, 13, 12, 73), (small, 12, 11, 40)]
        {
            let capacity = SortCapacity::of(&limits);
            assert_eq!((capacity.lg_tile, capacity.low_bits_max), (lg_tile, low_bits_max));
            assert_eq!(capacity.partition_shared_max, partition_kib << 10, "{capacity:?}");
            let all = capacity.sort_blocks().map(|(_, block)| block);
            assert!(all.chain(capacity.partition_blocks()).all(|block| limits.fits(block)));
        }
    }
}
