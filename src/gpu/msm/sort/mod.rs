//! Counting sort of references to points by the buckets of signed digits: `kernels/msm/sort.cu`.

mod capacity;
mod layout;
mod shape;

pub use capacity::SortCapacity;
pub use layout::{SortPath, SortPlan};
pub use shape::SortShape;

use self::layout::SortWorkspace;
use super::{
    launch::kernel_fault,
    references::{BasesLocation, SortedReferences},
};
use crate::device::{
    BlockShape, DeviceContext, DeviceFault, DeviceLimits, DevicePtr, DeviceSlice, GpuUnavailable,
    Kernel, KernelModule, Stream,
};

const MODULE: &str = "msm/sort";

/// Threads of the counting blocks. Not tuned: the sort is 5 % of an MSM
/// (`benches/experiments/msm.md`).
const COUNT_THREADS: u32 = 512;
const CLEAR_THREADS: u32 = 256;
const DIRECT_THREADS: u32 = 1024;

/// Parameters: scalars, state, histogram, starts, shape, narrow, n, vectors, tile_scalars,
/// vector_bins, lg_tile.
#[rustfmt::skip]
type CountBinsKernel = Kernel<(
    DevicePtr<[u32; 8]>, DevicePtr<u32>, DevicePtr<u16>, DevicePtr<u32>, u64, u64, u32, u32,
    u32, u32, u32,
)>;
/// Parameters: scalars, histogram, state, keys, unsorted_references, bucket_cursors, shape, narrow,
/// n, tile_scalars, vector_bins, bases.
#[rustfmt::skip]
type PartitionKernel = Kernel<(
    DevicePtr<[u32; 8]>, DevicePtr<u16>, DevicePtr<u32>, DevicePtr<u16>, DevicePtr<u32>,
    DevicePtr<u32>, u64, u64, u32, u32, u32, u64,
)>;
/// Parameters: keys, state, bucket_cursors, starts, shape, vectors, vector_bins, lg_tile.
type CountBucketsKernel =
    Kernel<(DevicePtr<u16>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u64, u32, u32, u32)>;
/// Parameters: keys, unsorted_references, state, bucket_cursors, starts, references, shape,
/// vectors, vector_bins.
#[rustfmt::skip]
type SortTilesKernel = Kernel<(
    DevicePtr<u16>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>,
    DevicePtr<u32>, u64, u32, u32,
)>;
/// Parameters: scalars, state, starts, references, shape, narrow, n, groups, bases.
#[rustfmt::skip]
type SortDirectKernel = Kernel<(
    DevicePtr<[u32; 8]>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u64, u64, u32, u32, u64,
)>;

pub struct Sorter {
    capacity: SortCapacity,
    /// The counting blocks that fill the device.
    count_blocks: u32,
    clear: Kernel<(DevicePtr<u32>, u32)>,
    count_bins: CountBinsKernel,
    /// Sorted by the bytes of shared memory that they need.
    partition: Vec<SizedKernel<PartitionKernel>>,
    count_buckets: CountBucketsKernel,
    /// By log2 of the buckets per bin.
    sort_tiles: Vec<SizedKernel<SortTilesKernel>>,
    direct: SortDirectKernel,
}

/// A kernel with blocks for inputs up to a size.
struct SizedKernel<K> {
    size_max: u64,
    kernel: K,
}

/// The kernel with the smallest blocks for an input of this size.
fn smallest<K>(kernels: &[SizedKernel<K>], size: u64) -> Result<&K, DeviceFault> {
    let fitting = kernels.iter().find(|sized| size <= sized.size_max);
    // Unreachable: plans fit the largest blocks.
    let unplanned = || kernel_fault(MODULE, "no block is large enough for the layout");
    Ok(&fitting.ok_or_else(unplanned)?.kernel)
}

impl Sorter {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let identity = context.identity();
        let module = KernelModule::load(context, MODULE)?;
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        Self::of(&module, &identity.limits).map_err(failed)
    }

    fn of(module: &KernelModule, limits: &DeviceLimits) -> Result<Self, DeviceFault> {
        let capacity = SortCapacity::of(limits);
        let threads = BlockShape::threads;
        let partition = |block: BlockShape| {
            let kernel = module.kernel("msm_partition", block)?.with_pdl();
            Ok(SizedKernel { size_max: block.shared_bytes.into(), kernel })
        };
        let name = capacity.sort_kernel();
        let sort_tiles = |low_bits: u32| {
            let kernel = module.kernel(&name, capacity.tile.block(low_bits))?.with_pdl();
            Ok(SizedKernel { size_max: low_bits.into(), kernel })
        };
        let count_bins: CountBinsKernel =
            module.kernel("msm_count_digits", threads(COUNT_THREADS))?;
        Ok(Self {
            capacity,
            count_blocks: limits.multiprocessors * count_bins.resident_blocks()?,
            clear: module.kernel("msm_clear_bins", threads(CLEAR_THREADS))?.with_pdl(),
            count_bins: count_bins.with_pdl(),
            partition: capacity.partition_blocks().map(partition).collect::<Result<_, _>>()?,
            count_buckets: module.kernel("msm_count_buckets", threads(COUNT_THREADS))?.with_pdl(),
            sort_tiles: capacity.low_bits().map(sort_tiles).collect::<Result<_, _>>()?,
            direct: module.kernel("msm_sort_direct", threads(DIRECT_THREADS))?.with_pdl(),
        })
    }

    /// Sorts the digits of `scalars`, canonical, vector after vector. The order within a bucket is
    /// arbitrary. No launch waits for the host.
    ///
    /// Shape: `scalars` has `n * vectors` elements, `workspace` [`SortPlan::bytes`] bytes aligned
    /// to `ALIGN`; longer spans are fine. The contents of `workspace` and `sorted` do not matter.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &SortPlan,
        scalars: DeviceSlice<'_, [u32; 8]>,
        bases: BasesLocation,
        workspace: DeviceSlice<'_, u8>,
        sorted: SortedReferences<'_>,
    ) -> Result<(), DeviceFault> {
        let &SortPlan { ref shape, tile_scalars: tile, vector_bins: bins, .. } = plan;
        if plan.capacity != self.capacity {
            return Err(kernel_fault(MODULE, "the layout was planned for another device"));
        }
        let fits = scalars.len() as u64 >= u64::from(shape.n) * u64::from(shape.vectors)
            && sorted.references.len() as u64 >= shape.digits_max()
            && sorted.starts.len() as u64 > shape.buckets();
        let SortWorkspace { state, histogram, bucket_cursors, keys, unsorted_references } = plan
            .split_workspace(workspace)
            .filter(|_| fits)
            .ok_or_else(|| kernel_fault(MODULE, "spans are too short for the shape"))?;
        let SortedReferences { references, starts } = sorted;
        let word = shape.recoding_word(plan.low_bits);
        let narrow = shape.narrow_mask();
        let n = shape.n;
        let vectors = shape.vectors;
        let lg_tile = self.capacity.tile.lg_digits;
        if matches!(plan.path, SortPath::Bins { .. }) || vectors > 1 {
            // Count digits, and plan the starts of bins and their tiles by prefix sums.
            let words = plan.cleared_words() as u32;
            self.clear.launch(stream, words.div_ceil(CLEAR_THREADS), (state, words))?;
            let given =
                (scalars, state, histogram, starts, word, narrow, n, vectors, tile, bins, lg_tile);
            // At least one block, because the last block plans.
            let grid = plan.scalar_tiles.clamp(1, self.count_blocks);
            self.count_bins.launch(stream, grid, given)?;
        }
        let bases = bases.word();
        if let SortPath::Direct { groups } = plan.path {
            let given = (scalars, state, starts, references, word, narrow, n, groups, bases);
            return self.direct.launch(stream, vectors * groups, given);
        }
        #[rustfmt::skip]
        let given = (
            scalars, histogram, state, keys, unsorted_references, bucket_cursors, word, narrow, n,
            tile, bins, bases,
        );
        let partition = smallest(&self.partition, plan.partition_shared())?;
        partition.launch(stream, plan.scalar_tiles, given)?;
        let given = (keys, state, bucket_cursors, starts, word, vectors, bins, lg_tile);
        self.count_buckets.launch(stream, plan.digit_tiles, given)?;
        #[rustfmt::skip]
        let given = (
            keys, unsorted_references, state, bucket_cursors, starts, references, word, vectors,
            bins,
        );
        let sort_tiles = smallest(&self.sort_tiles, plan.low_bits.into())?;
        sort_tiles.launch(stream, plan.digit_tiles, given)
    }
}
