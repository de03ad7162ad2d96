//! Sorts references to points by the buckets of the scalars' signed digits: `kernels/msm/sort.cu`.

mod capacity;
mod layout;

pub use capacity::SortCapacity;
pub use layout::{SortPath, SortPlan};

use self::layout::SortWorkspace;
use super::Recoding;
use crate::device::{
    BlockShape, DeviceContext, DeviceFault, DeviceLimits, DevicePtr, DeviceSlice, GpuUnavailable,
    Kernel, KernelModule, Stream,
};

const MODULE: &str = "msm/sort";

/// Threads of the counting blocks. Other sizes were not measured; the whole sort is 5 % of an MSM
/// of 2^20 or 2^22 scalars on an H200.
const COUNT_THREADS: u32 = 512;
const CLEAR_THREADS: u32 = 256;
const DIRECT_THREADS: u32 = 1024;

/// The input of a sort: the digits of `vectors` times `n` scalars in some of the bucket sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortShape {
    windows: Recoding,
    n: u32,
    vectors: u32,
    first_set: u32,
    sets: u32,
}

impl SortShape {
    /// All sets of `vectors` vectors of `n` scalars each.
    ///
    /// Shape: `n <= 2^26`, `vectors >= 1`; `None` otherwise.
    pub fn new(windows: Recoding, n: u32, vectors: u32) -> Option<Self> {
        let sets = windows.sets();
        (n <= 1 << 26 && vectors > 0).then_some(Self { windows, n, vectors, first_set: 0, sets })
    }

    /// Only the sets `first..first + count`. `None` if that range is empty or too long.
    pub fn with_sets(self, first: u32, count: u32) -> Option<Self> {
        let inside = first.checked_add(count)? <= self.windows.sets();
        (count > 0 && inside).then_some(Self { first_set: first, sets: count, ..self })
    }

    /// The recoding of the scalars.
    pub fn windows(&self) -> &Recoding {
        &self.windows
    }

    /// Scalars per vector.
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The number of vectors.
    pub fn vectors(&self) -> u32 {
        self.vectors
    }

    /// The first bucket set that is sorted.
    pub fn first_set(&self) -> u32 {
        self.first_set
    }

    /// The number of bucket sets that are sorted.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Buckets of all vectors; `starts` is one word longer.
    pub fn buckets(&self) -> u64 {
        u64::from(self.vectors) * self.vector_buckets()
    }

    /// Launch bound on the digits, and the length of `references`.
    pub fn digits_max(&self) -> u64 {
        u64::from(self.vectors) * self.vector_digits()
    }

    fn vector_buckets(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.windows.buckets())
    }

    fn vector_digits(&self) -> u64 {
        u64::from(self.n) * u64::from(self.scalar_digits())
    }

    fn scalar_digits(&self) -> u32 {
        self.windows.digits_max(self.first_set, self.sets)
    }

    /// A bit mask of the narrower windows: bit j for window j.
    fn narrow_windows(&self) -> u64 {
        match &self.windows {
            Recoding::Fixed(fixed) => fixed.narrow_mask(),
            Recoding::Radix(_) | Recoding::Sliding(_) => 0,
        }
    }

    /// The word that `Recoding` in kernels/msm/recode.cuh reads.
    fn recoding_word(&self, low_bits: u32) -> u64 {
        let Self { windows, first_set, sets, .. } = self;
        let (bits, count, kind) = match windows {
            Recoding::Fixed(fixed) => (fixed.bits(), fixed.count(), 0),
            Recoding::Sliding(sliding) => (sliding.bits(), 0, 1),
            Recoding::Radix(radix) => (radix.doublings(), radix.count(), 2),
        };
        let factor = windows.factor();
        let bytes = [bits, count, windows.sets(), *first_set, *sets, low_bits, kind, factor];
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}

/// The indices of the bases and their tables: the digit of scalar i in table t uses point
/// `first + t * stride + i`, below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableIndices {
    /// The index of the first point of table 0.
    pub first: u32,
    /// Points from one table's start to the next one's.
    pub stride: u32,
}

impl TableIndices {
    /// The word that kernels read.
    fn word(self) -> u64 {
        u64::from(self.stride) << 32 | u64::from(self.first)
    }
}

/// The output of a sort.
#[derive(Clone, Copy)]
pub struct SortOutput<'l> {
    /// At least [`SortShape::digits_max`] words. Bit 31 marks a point that is subtracted.
    pub references: DeviceSlice<'l, u32>,
    /// [`SortShape::buckets`] + 1 words: bucket q's references are `starts[q]..starts[q + 1]`.
    /// Every word is written.
    pub starts: DeviceSlice<'l, u32>,
}

/// Parameters: scalars, state, histogram, starts, shape, narrow, n, vectors, tile_scalars,
/// vector_bins, lg_tile.
type CountBinsKernel = Kernel<(
    DevicePtr<[u32; 8]>,
    DevicePtr<u32>,
    DevicePtr<u16>,
    DevicePtr<u32>,
    u64,
    u64,
    u32,
    u32,
    u32,
    u32,
    u32,
)>;
/// Parameters: scalars, histogram, state, keys, payloads, places, shape, narrow, n, tile_scalars,
/// vector_bins, tables.
#[rustfmt::skip]
type PartitionKernel = Kernel<(
    DevicePtr<[u32; 8]>, DevicePtr<u16>, DevicePtr<u32>, DevicePtr<u16>, DevicePtr<u32>,
    DevicePtr<u32>, u64, u64, u32, u32, u32, u64,
)>;
/// Parameters: keys, state, places, starts, shape, vectors, vector_bins, lg_tile.
type CountBucketsKernel =
    Kernel<(DevicePtr<u16>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u64, u32, u32, u32)>;
/// Parameters: keys, payloads, state, places, starts, references, shape, vectors, vector_bins.
type SortTilesKernel = Kernel<(
    DevicePtr<u16>,
    DevicePtr<u32>,
    DevicePtr<u32>,
    DevicePtr<u32>,
    DevicePtr<u32>,
    DevicePtr<u32>,
    u64,
    u32,
    u32,
)>;
/// Parameters: scalars, state, starts, references, shape, narrow, n, groups, tables.
#[rustfmt::skip]
type SortDirectKernel = Kernel<(
    DevicePtr<[u32; 8]>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, u64, u64, u32, u32, u64,
)>;

/// The kernels of the sort on one device.
pub struct Sorter {
    capacity: SortCapacity,
    /// The counting blocks that fill the device.
    count_blocks: u32,
    clear: Kernel<(DevicePtr<u32>, u32)>,
    count_bins: CountBinsKernel,
    /// By the shared memory of a block.
    partition: Vec<(u32, PartitionKernel)>,
    count_buckets: CountBucketsKernel,
    /// By log2 of the buckets per bin.
    sort_tiles: Vec<(u32, SortTilesKernel)>,
    direct: SortDirectKernel,
}

impl Sorter {
    /// Loads the kernels.
    ///
    /// Errors: `NoKernels`, `NoImageForDevice`, `Device`.
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let identity = context.identity();
        let module = KernelModule::load(context, MODULE)?;
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        Self::of(&module, &identity.limits).map_err(failed)
    }

    fn of(module: &KernelModule, limits: &DeviceLimits) -> Result<Self, DeviceFault> {
        let capacity = SortCapacity::of(limits);
        let partition = |block: BlockShape| {
            let kernel = module.kernel("msm_partition", block)?;
            Ok((block.shared_bytes, kernel.with_pdl()))
        };
        let name = capacity.sort_kernel();
        let sort_tiles = |(low_bits, block)| {
            let kernel = module.kernel(&name, block)?;
            Ok((low_bits, kernel.with_pdl()))
        };
        let count_bins: CountBinsKernel =
            module.kernel("msm_count_digits", BlockShape::threads(COUNT_THREADS))?;
        Ok(Self {
            capacity,
            count_blocks: limits.multiprocessors * count_bins.resident_blocks()?,
            clear: module.kernel("msm_clear_bins", BlockShape::threads(CLEAR_THREADS))?.with_pdl(),
            count_bins: count_bins.with_pdl(),
            partition: capacity.partition_blocks().map(partition).collect::<Result<_, _>>()?,
            count_buckets: module
                .kernel("msm_count_buckets", BlockShape::threads(COUNT_THREADS))?
                .with_pdl(),
            sort_tiles: capacity.sort_blocks().map(sort_tiles).collect::<Result<_, _>>()?,
            direct: module
                .kernel("msm_sort_direct", BlockShape::threads(DIRECT_THREADS))?
                .with_pdl(),
        })
    }

    /// Sorts the digits of `scalars`, canonical, vector after vector. The order within a bucket is
    /// arbitrary. No launch waits for the host.
    ///
    /// Shape: `scalars` has `n * vectors` elements, `work` [`SortPlan::bytes`] bytes aligned to
    /// `ALIGN`; longer spans are fine. The contents of `work` and `sorted` do not matter.
    ///
    /// Errors: `Kernel` if a span is too short; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        layout: &SortPlan,
        scalars: DeviceSlice<'_, [u32; 8]>,
        tables: TableIndices,
        work: DeviceSlice<'_, u8>,
        sorted: SortOutput<'_>,
    ) -> Result<(), DeviceFault> {
        let shape = &layout.shape;
        if layout.capacity != self.capacity {
            let problem = "the layout was planned for another device".to_owned();
            return Err(DeviceFault::KernelMismatch { kernel: MODULE.to_owned(), problem });
        }
        let fits = scalars.len() as u64 >= u64::from(shape.n) * u64::from(shape.vectors)
            && sorted.references.len() as u64 >= shape.digits_max()
            && sorted.starts.len() as u64 > shape.buckets();
        let spaces = layout.split_workspace(work).filter(|_| fits).ok_or_else(|| {
            DeviceFault::KernelMismatch {
                kernel: MODULE.to_owned(),
                problem: "spans are too short for the shape".to_owned(),
            }
        })?;
        match layout.path {
            SortPath::Bins { .. } => {
                self.count_bins(stream, layout, scalars, &spaces, sorted)?;
                self.sort_by_bins(stream, layout, scalars, tables, &spaces, sorted)
            }
            SortPath::Direct { groups } => {
                if shape.vectors > 1 {
                    self.count_bins(stream, layout, scalars, &spaces, sorted)?;
                }
                let word = shape.recoding_word(layout.low_bits);
                let narrow = shape.narrow_windows();
                let SortOutput { references, starts } = sorted;
                let (state, n, tables) = (spaces.state, shape.n, tables.word());
                let given = (scalars, state, starts, references, word, narrow, n, groups, tables);
                self.direct.launch(stream, shape.vectors * groups, given)
            }
        }
    }

    /// Counts digits and plans the starts of bins and their tiles by prefix sums.
    fn count_bins(
        &self,
        stream: &Stream,
        layout: &SortPlan,
        scalars: DeviceSlice<'_, [u32; 8]>,
        spaces: &SortWorkspace<'_>,
        sorted: SortOutput<'_>,
    ) -> Result<(), DeviceFault> {
        let (shape, state) = (&layout.shape, spaces.state);
        let words = layout.cleared_words() as u32;
        self.clear.launch(stream, words.div_ceil(CLEAR_THREADS), (state, words))?;
        let word = shape.recoding_word(layout.low_bits);
        let narrow = shape.narrow_windows();
        let (n, vectors, tile) = (shape.n, shape.vectors, layout.tile_scalars);
        let (histogram, starts, bins) = (spaces.histogram, sorted.starts, layout.vector_bins);
        let lg_tile = self.capacity.lg_tile;
        let given =
            (scalars, state, histogram, starts, word, narrow, n, vectors, tile, bins, lg_tile);
        // At least one block, because the last block plans.
        let grid = layout.scalar_tiles.clamp(1, self.count_blocks);
        self.count_bins.launch(stream, grid, given)
    }

    fn sort_by_bins(
        &self,
        stream: &Stream,
        layout: &SortPlan,
        scalars: DeviceSlice<'_, [u32; 8]>,
        tables: TableIndices,
        spaces: &SortWorkspace<'_>,
        sorted: SortOutput<'_>,
    ) -> Result<(), DeviceFault> {
        let &SortWorkspace {
            state,
            histogram,
            bucket_cursors: places,
            keys,
            unsorted_references: payloads,
        } = spaces;
        let (shape, tile) = (&layout.shape, layout.tile_scalars);
        let (word, narrow) = (shape.recoding_word(layout.low_bits), shape.narrow_windows());
        let (n, vectors) = (shape.n, shape.vectors);
        let (bins, tables) = (layout.vector_bins, tables.word());
        let SortOutput { references, starts } = sorted;
        let shared = layout.partition_shared();
        // Unreachable: layouts fit the largest blocks.
        let unplanned = || DeviceFault::KernelMismatch {
            kernel: MODULE.to_owned(),
            problem: "no block is large enough for the layout".to_owned(),
        };
        let fits = |(bytes, _): &&(u32, PartitionKernel)| shared <= u64::from(*bytes);
        let (_, partition) = self.partition.iter().find(fits).ok_or_else(unplanned)?;
        #[rustfmt::skip]
        let given = (
            scalars, histogram, state, keys, payloads, places, word, narrow, n, tile, bins, tables,
        );
        partition.launch(stream, layout.scalar_tiles, given)?;
        let lg_tile = self.capacity.lg_tile;
        let given = (keys, state, places, starts, word, vectors, bins, lg_tile);
        self.count_buckets.launch(stream, layout.digit_tiles, given)?;
        let fits = |(low_bits, _): &&(u32, SortTilesKernel)| layout.low_bits <= *low_bits;
        let (_, sort_tiles) = self.sort_tiles.iter().find(fits).ok_or_else(unplanned)?;
        let given = (keys, payloads, state, places, starts, references, word, vectors, bins);
        sort_tiles.launch(stream, layout.digit_tiles, given)
    }
}
