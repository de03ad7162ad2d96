//! Sizes of the sort's tiles and blocks, by the shared memory of a device.

use crate::device::{BlockShape, DeviceLimits};

/// Tiles of digits: `msm_sort_tiles_*` in kernels/msm/sort.cu.
const TILES: [SortTile; 3] = [
    SortTile { lg_digits: 14, threads: 1024 },
    SortTile { lg_digits: 13, threads: 1024 },
    SortTile { lg_digits: 12, threads: 512 },
];

/// Blocks of `msm_partition`, by the shared memory they stage digits in.
const PARTITIONS: [BlockShape; 3] = [
    BlockShape { threads: 256, shared_bytes: 40 << 10 },
    BlockShape { threads: 512, shared_bytes: 73 << 10 },
    BlockShape { threads: 512, shared_bytes: 111 << 10 },
];

/// log2 of the buckets per bin: one block configuration for bins up to the first size, one for
/// larger bins.
const LOW_BITS: [u32; 2] = [11, 12];

/// The digits that a block sorts in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortTile {
    pub lg_digits: u32,
    pub threads: u32,
}

impl SortTile {
    /// The block for bins of 2^`low_bits` buckets: six bytes per digit, eight per bucket, and a few
    /// words.
    pub(super) fn block(self, low_bits: u32) -> BlockShape {
        let shared_bytes = (6 << self.lg_digits) + (8 << low_bits) + 4 + 128;
        BlockShape { threads: self.threads, shared_bytes }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortCapacity {
    pub tile: SortTile,
    /// log2 of the most buckets per bin.
    pub(super) low_bits_max: u32,
    /// The most bytes of dynamic shared memory for `msm_partition`.
    pub(super) partition_shared_max: u32,
}

impl SortCapacity {
    /// The tiles and blocks with the most resident threads; of equals the largest, since larger
    /// tiles write longer runs. 1024 partitioning threads are enough: 1536 with less memory each
    /// take 6 % longer at 2^24 (`benches/experiments/msm.md`).
    pub fn of(limits: &DeviceLimits) -> Self {
        let resident = |block: BlockShape| limits.resident_blocks(block) * block.threads;
        // Of several maxima, `max_by_key` takes the last.
        let tiles = TILES.into_iter().rev();
        let tile = tiles.max_by_key(|tile| resident(tile.block(LOW_BITS[0])));
        let tile = tile.unwrap_or(TILES[TILES.len() - 1]);
        let fits = |low_bits: &u32| limits.fits(tile.block(*low_bits));
        let low_bits_max = LOW_BITS.into_iter().rfind(fits).unwrap_or(LOW_BITS[0]);
        let partition = PARTITIONS.into_iter().max_by_key(|block| resident(*block).min(1024));
        let partition_shared_max = partition.unwrap_or(PARTITIONS[0]).shared_bytes;
        Self { tile, low_bits_max, partition_shared_max }
    }

    pub(super) fn sort_kernel(&self) -> String {
        format!("msm_sort_tiles_{}k", (1 << self.tile.lg_digits) >> 10)
    }

    /// log2 of the buckets per bin of its configurations. The largest comes last: loading a kernel
    /// sets the shared memory limit of its function.
    pub(super) fn low_bits(&self) -> impl Iterator<Item = u32> {
        LOW_BITS.into_iter().filter(|low_bits| *low_bits <= self.low_bits_max)
    }

    /// Blocks of `msm_partition`, the largest last.
    pub(super) fn partition_blocks(&self) -> impl Iterator<Item = BlockShape> {
        PARTITIONS.into_iter().filter(|block| block.shared_bytes <= self.partition_shared_max)
    }
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
            assert_eq!((capacity.tile.lg_digits, capacity.low_bits_max), (lg_tile, low_bits_max));
            assert_eq!(capacity.partition_shared_max, partition_kib << 10, "{capacity:?}");
            let all = capacity.low_bits().map(|low_bits| capacity.tile.block(low_bits));
            assert!(all.chain(capacity.partition_blocks()).all(|block| limits.fits(block)));
        }
    }
}
