//! Scalars become references to points, sorted by bucket: `kernels/msm/sort.cu`.

mod layout;

pub use layout::{Layout, Path};

use self::layout::{PARTITION_SHARED_MAX, Workspace};
use super::Windows;
use crate::device::{Block, Context, Fault, Kernel, Module, Ptr, Span, Stream, Unusable};

const MODULE: &str = "msm/sort";

/// Threads of the blocks that count, and the most blocks of them a multiprocessor: 2048 threads.
/// Those that sort are as wide as a block can be, since the digits of a bin lie in one block's
/// shared memory. Other widths were not measured; the whole sort is 5 % of an MSM of 2^20 or 2^22
/// on an H200.
const COUNT_THREADS: u32 = 512;
const COUNT_BLOCKS: u32 = 4;
const CLEAR_THREADS: u32 = 256;
const SORT_THREADS: u32 = 1024;
const DIRECT_THREADS: u32 = 1024;

/// Blocks of `msm_partition`, by what they stage: 5, 3 or 2 fit a multiprocessor of 228 KiB. The
/// largest comes last, since asking for shared memory sets what a function may have.
const PARTITION: [Block; 3] = [
    Block { threads: 256, shared_bytes: 40 << 10 },
    Block { threads: 512, shared_bytes: 73 << 10 },
    Block { threads: 512, shared_bytes: PARTITION_SHARED_MAX },
];

/// Blocks of `msm_sort_tiles`, by log2 of the buckets of a bin: 16384 digits of 6 bytes, 8 bytes a
/// bucket, and some words; two of the smaller fit a multiprocessor.
const SORT: [(u32, Block); 2] = [(11, sort_block(11)), (12, sort_block(12))];

const fn sort_block(low_bits: u32) -> Block {
    Block { threads: SORT_THREADS, shared_bytes: (6 << 14) + (8 << low_bits) + 4 + 128 }
}

/// What one pass sorts: digits of `vectors` times `n` scalars in some of the bucket sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    windows: Windows,
    n: u32,
    vectors: u32,
    first_set: u32,
    sets: u32,
}

impl Shape {
    /// All sets of `vectors` vectors of `n` scalars each.
    ///
    /// Shape: `n <= 2^26`, `vectors >= 1`; `None` otherwise.
    pub fn new(windows: Windows, n: u32, vectors: u32) -> Option<Self> {
        let sets = windows.sets();
        (n <= 1 << 26 && vectors > 0).then_some(Self { windows, n, vectors, first_set: 0, sets })
    }

    /// The sets `first..first + count` only. `None` where there are none or fewer.
    pub fn with_sets(self, first: u32, count: u32) -> Option<Self> {
        let inside = first.checked_add(count)? <= self.windows.sets();
        (count > 0 && inside).then_some(Self { first_set: first, sets: count, ..self })
    }

    /// How scalars are cut.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Scalars of a vector.
    pub fn n(&self) -> u32 {
        self.n
    }

    /// How many vectors.
    pub fn vectors(&self) -> u32 {
        self.vectors
    }

    /// The first bucket set that is taken.
    pub fn first_set(&self) -> u32 {
        self.first_set
    }

    /// How many bucket sets are taken.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Buckets of all vectors; `starts` is one longer.
    pub fn buckets(&self) -> u64 {
        u64::from(self.vectors) * self.vector_buckets()
    }

    /// As many digits as there can be; `references` is that long.
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

    /// Which windows are narrower: bit j for window j.
    fn narrow(&self) -> u64 {
        match &self.windows {
            Windows::Fixed(fixed) => fixed.narrow(),
            Windows::Radix(_) | Windows::Sliding(_) => 0,
        }
    }

    /// The word that `Recoding` in kernels/msm/recode.cuh reads.
    fn word(&self, low_bits: u32) -> u64 {
        let Self { windows, first_set, sets, .. } = self;
        let (bits, count, kind) = match windows {
            Windows::Fixed(fixed) => (fixed.bits(), fixed.count(), 0),
            Windows::Sliding(sliding) => (sliding.bits(), 0, 1),
            Windows::Radix(radix) => (radix.doublings(), radix.count(), 2),
        };
        let factor = windows.factor();
        let bytes = [bits, count, windows.sets(), *first_set, *sets, low_bits, kind, factor];
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}

/// How points are named: the index of the first base's first multiple, and how many points apart
/// tables are. Digit of scalar i and table t: `first + t * stride + i`, below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// Index of the first point of table 0.
    pub first: u32,
    /// Points from one table's start to the next one's.
    pub stride: u32,
}

impl Tables {
    /// As kernels get it.
    fn word(self) -> u64 {
        u64::from(self.stride) << 32 | u64::from(self.first)
    }
}

/// Where the result goes.
#[derive(Clone, Copy)]
pub struct Sorted<'l> {
    /// Room for [`Shape::digits_max`]. Bit 31 says that the point is subtracted.
    pub references: Span<'l, u32>,
    /// One for each of [`Shape::buckets`], and one more: bucket q's references are
    /// `starts[q]..starts[q + 1]`. Written whole.
    pub starts: Span<'l, u32>,
}

/// scalars, state, histogram, starts, shape, narrow, n, vectors, tile_scalars, vector_bins.
type CountBins =
    Kernel<(Ptr<[u32; 8]>, Ptr<u32>, Ptr<u16>, Ptr<u32>, u64, u64, u32, u32, u32, u32)>;
/// scalars, histogram, state, keys, payloads, places, shape, narrow, n, tile_scalars, vector_bins,
/// tables.
#[rustfmt::skip]
type Partition = Kernel<(
    Ptr<[u32; 8]>, Ptr<u16>, Ptr<u32>, Ptr<u16>, Ptr<u32>, Ptr<u32>, u64, u64, u32, u32, u32, u64,
)>;
/// keys, state, places, starts, shape, vectors, vector_bins.
type CountBuckets = Kernel<(Ptr<u16>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u64, u32, u32)>;
/// keys, payloads, state, places, starts, references, shape, vectors, vector_bins.
type SortTiles =
    Kernel<(Ptr<u16>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u64, u32, u32)>;
/// scalars, state, starts, references, shape, narrow, n, groups, tables.
#[rustfmt::skip]
type SortDirect = Kernel<(
    Ptr<[u32; 8]>, Ptr<u32>, Ptr<u32>, Ptr<u32>, u64, u64, u32, u32, u64,
)>;

/// The kernels, loaded on a device.
pub struct Sorter {
    /// Blocks that fill the device with counting.
    count_grid: u32,
    clear: Kernel<(Ptr<u32>, u32)>,
    count_bins: CountBins,
    partition: [Partition; PARTITION.len()],
    count_buckets: CountBuckets,
    sort_tiles: [SortTiles; SORT.len()],
    direct: SortDirect,
}

impl Sorter {
    /// Loads the kernels.
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let identity = context.identity();
        let module = Module::load(context, MODULE)?;
        let load = || -> Result<Self, Fault> {
            let [small, middle, large] = PARTITION;
            let partition =
                |block| module.kernel("msm_partition", block).map(Kernel::starting_early);
            let [(_, narrow), (_, wide)] = SORT;
            let sort_tiles =
                |block| module.kernel("msm_sort_tiles", block).map(Kernel::starting_early);
            Ok(Self {
                count_grid: identity.units * COUNT_BLOCKS,
                clear: module.kernel("msm_clear_bins", Block::of(CLEAR_THREADS))?.starting_early(),
                count_bins: module
                    .kernel("msm_count_bins", Block::of(COUNT_THREADS))?
                    .starting_early(),
                partition: [partition(small)?, partition(middle)?, partition(large)?],
                count_buckets: module
                    .kernel("msm_count_buckets", Block::of(COUNT_THREADS))?
                    .starting_early(),
                sort_tiles: [sort_tiles(narrow)?, sort_tiles(wide)?],
                direct: module
                    .kernel("msm_sort_direct", Block::of(DIRECT_THREADS))?
                    .starting_early(),
            })
        };
        load().map_err(|fault| Unusable::Device { index: identity.index, fault })
    }

    /// Sorts the digits of `scalars`, vector after vector, all of them canonical. Order inside a
    /// bucket is arbitrary. No launch waits for the host.
    ///
    /// Shape: `scalars` of `n * vectors`, `work` of [`Layout::bytes`] and aligned to `ALIGN`,
    /// `sorted` as it says; longer spans are fine. What `work` and `sorted` hold does not matter.
    ///
    /// Errors: `Kernel` where a span is too short; what the driver says.
    pub fn run(
        &self,
        stream: &Stream,
        layout: &Layout,
        scalars: Span<'_, [u32; 8]>,
        tables: Tables,
        work: Span<'_, u8>,
        sorted: Sorted<'_>,
    ) -> Result<(), Fault> {
        let shape = &layout.shape;
        let fits = scalars.len() as u64 >= u64::from(shape.n) * u64::from(shape.vectors)
            && sorted.references.len() as u64 >= shape.digits_max()
            && sorted.starts.len() as u64 > shape.buckets();
        let spaces = layout.cut(work).filter(|_| fits).ok_or_else(|| Fault::Kernel {
            kernel: MODULE.to_owned(),
            problem: "spans are too short for the shape".to_owned(),
        })?;
        match layout.path {
            Path::Bins { .. } => {
                self.count(stream, layout, scalars, &spaces, sorted)?;
                self.by_bins(stream, layout, scalars, tables, &spaces, sorted)
            }
            Path::Direct { groups } => {
                if shape.vectors > 1 {
                    self.count(stream, layout, scalars, &spaces, sorted)?;
                }
                let word = shape.word(layout.low_bits);
                let narrow = shape.narrow();
                let Sorted { references, starts } = sorted;
                let (state, n, tables) = (spaces.state, shape.n, tables.word());
                let given = (scalars, state, starts, references, word, narrow, n, groups, tables);
                self.direct.launch(stream, shape.vectors * groups, given)
            }
        }
    }

    /// Where bins begin, and their tiles.
    fn count(
        &self,
        stream: &Stream,
        layout: &Layout,
        scalars: Span<'_, [u32; 8]>,
        spaces: &Workspace<'_>,
        sorted: Sorted<'_>,
    ) -> Result<(), Fault> {
        let (shape, state) = (&layout.shape, spaces.state);
        let words = layout.cleared_words() as u32;
        self.clear.launch(stream, words.div_ceil(CLEAR_THREADS), (state, words))?;
        let word = shape.word(layout.low_bits);
        let narrow = shape.narrow();
        let (n, vectors, tile) = (shape.n, shape.vectors, layout.tile_scalars);
        let (histogram, starts, bins) = (spaces.histogram, sorted.starts, layout.vector_bins);
        let given = (scalars, state, histogram, starts, word, narrow, n, vectors, tile, bins);
        // At least one block, which plans.
        let grid = layout.scalar_tiles.clamp(1, self.count_grid);
        self.count_bins.launch(stream, grid, given)
    }

    fn by_bins(
        &self,
        stream: &Stream,
        layout: &Layout,
        scalars: Span<'_, [u32; 8]>,
        tables: Tables,
        spaces: &Workspace<'_>,
        sorted: Sorted<'_>,
    ) -> Result<(), Fault> {
        let &Workspace { state, histogram, places, keys, payloads } = spaces;
        let (shape, tile) = (&layout.shape, layout.tile_scalars);
        let (word, narrow) = (shape.word(layout.low_bits), shape.narrow());
        let (n, vectors) = (shape.n, shape.vectors);
        let (bins, tables) = (layout.vector_bins, tables.word());
        let Sorted { references, starts } = sorted;
        let shared = layout.partition_shared();
        let fits = |block: &Block| shared <= block.shared_bytes.into();
        let which = PARTITION.iter().position(fits).unwrap_or(PARTITION.len() - 1);
        #[rustfmt::skip]
        let given = (
            scalars, histogram, state, keys, payloads, places, word, narrow, n, tile, bins, tables,
        );
        self.partition[which].launch(stream, layout.scalar_tiles, given)?;
        let given = (keys, state, places, starts, word, vectors, bins);
        self.count_buckets.launch(stream, layout.digit_tiles, given)?;
        let which = SORT.iter().position(|(bits, _)| layout.low_bits <= *bits);
        let given = (keys, payloads, state, places, starts, references, word, vectors, bins);
        self.sort_tiles[which.unwrap_or(SORT.len() - 1)].launch(stream, layout.digit_tiles, given)
    }
}
