//! Plans a sort: its tiles and bins, and the layout of its workspace.

use std::ops::Range;

use super::{capacity::SortCapacity, shape::SortShape};
use crate::{
    device::DeviceSlice,
    msm::launch::{RegionPlanner, lg_ceil, region},
};

/// The most bins of a vector: `BINS_MAX` in kernels/msm/bins.cuh.
const BINS_MAX: u64 = 1 << 12;
/// The most bins of all vectors: one block plans them.
const BINS_ALL_MAX: u64 = 1 << 17;
/// The most buckets of a vector: `BUCKET_BITS` in kernels/msm/recode.cuh.
const BUCKETS_MAX: u64 = 1 << 24;
/// The most buckets and digits of all vectors: references have 31 bits for the index.
const BUCKETS_ALL_MAX: u64 = 1 << 28;
const DIGITS_MAX: u64 = 1 << 31;
/// Buckets of a block of `msm_sort_direct`: `DIRECT_BUCKETS` in kernels/msm/sort.cu.
const DIRECT_BUCKETS: u64 = 1 << 12;

/// The most digits of a tile of scalars in small and medium sorts.
const STAGED_DIGITS_MAX: u32 = 12 << 10;

/// The algorithm that sorts the digits of a [`SortShape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortPath {
    /// Partitions digits into bins of 2^`low_bits` neighbouring buckets, then sorts the bins.
    Bins {
        /// log2 of the buckets per bin; at most 12.
        low_bits: u32,
        tile_scalars: u32,
    },
    /// Writes digits directly to their places. Each of `groups` blocks per vector reads all digits.
    Direct {
        /// Blocks per vector; each has an equal range of at most 4096 buckets.
        groups: u32,
    },
}

/// The sizes of a sort, given its shape and path. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortPlan {
    pub shape: SortShape,
    pub(super) capacity: SortCapacity,
    pub path: SortPath,
    pub(super) low_bits: u32,
    pub(super) tile_scalars: u32,
    /// Tiles of scalars, of all vectors.
    pub(super) scalar_tiles: u32,
    /// Coarse bins of a vector, and of all vectors.
    pub(super) vector_bins: u32,
    pub(super) bins: u32,
    /// Upper bound on the tiles of digits.
    pub(super) digit_tiles: u32,
}

pub(super) struct SortWorkspace<'l> {
    pub state: DeviceSlice<'l, u32>,
    pub histogram: DeviceSlice<'l, u16>,
    pub bucket_cursors: DeviceSlice<'l, u32>,
    pub keys: DeviceSlice<'l, u16>,
    pub unsorted_references: DeviceSlice<'l, u32>,
}

impl SortPlan {
    /// Uses the path that measured fastest for the shape. `None` if the shape is too large: 2^24
    /// buckets per vector (fewer on devices with little shared memory), 2^28 in all, 2^31 digits.
    pub fn of(shape: SortShape, capacity: SortCapacity) -> Option<Self> {
        Self::with_path(shape, capacity, path(&shape, &capacity))
    }

    pub fn with_path(shape: SortShape, capacity: SortCapacity, path: SortPath) -> Option<Self> {
        let buckets = shape.vector_buckets();
        let vectors = u64::from(shape.vectors);
        let digits = shape.digits_max();
        if buckets > BUCKETS_MAX || buckets * vectors > BUCKETS_ALL_MAX || digits >= DIGITS_MAX {
            return None;
        }
        let (low_bits, tile_scalars) = match path {
            SortPath::Bins { low_bits, tile_scalars } => (low_bits, tile_scalars),
            // The counting kernel treats each vector as one bin.
            SortPath::Direct { .. } => (lg_ceil(buckets), tile_scalars(&shape, &capacity, 1)),
        };
        let tiles = vectors * u64::from(shape.n.div_ceil(tile_scalars.max(1)));
        let vector_bins = buckets.div_ceil(1 << low_bits);
        let bins = vectors * vector_bins;
        let plan = Self {
            shape,
            capacity,
            path,
            low_bits,
            tile_scalars,
            scalar_tiles: u32::try_from(tiles).ok()?,
            vector_bins: u32::try_from(vector_bins).ok()?,
            bins: u32::try_from(bins).ok()?,
            digit_tiles: u32::try_from((digits >> capacity.tile.lg_digits) + bins).ok()?,
        };
        let fits = match path {
            SortPath::Bins { .. } => {
                tile_scalars > 0
                    && low_bits <= capacity.low_bits_max
                    && vector_bins <= BINS_MAX
                    && plan.partition_shared() <= capacity.partition_shared_max.into()
            }
            SortPath::Direct { groups } => buckets <= u64::from(groups) * DIRECT_BUCKETS,
        };
        (fits && bins <= BINS_ALL_MAX).then_some(plan)
    }

    pub fn kernels(&self) -> Vec<String> {
        let names = ["msm_clear_bins", "msm_count_digits", "msm_partition", "msm_count_buckets"];
        let (used, last) = match self.path {
            SortPath::Bins { .. } => (&names[..], self.capacity.sort_kernel()),
            SortPath::Direct { .. } => {
                let used = if self.shape.vectors > 1 { &names[..2] } else { &[] };
                (used, "msm_sort_direct".to_owned())
            }
        };
        used.iter().map(|&name| name.to_owned()).chain([last]).collect()
    }

    pub fn bytes(&self) -> u64 {
        let [.., last] = self.regions();
        last.end
    }

    /// The regions of [`SortWorkspace`], in order.
    fn regions(&self) -> [Range<u64>; 5] {
        let digits = self.shape.digits_max();
        let state = 4 * (self.cleared_words() + 3 * u64::from(self.bins) + 2);
        let state = state + 4 * u64::from(self.digit_tiles);
        let histogram = 2 * u64::from(self.scalar_tiles) * u64::from(self.vector_bins);
        let mut regions = RegionPlanner::default();
        let bytes = match self.path {
            SortPath::Bins { .. } => {
                [state, histogram, 4 * self.shape.buckets(), 2 * digits, 4 * digits]
            }
            SortPath::Direct { .. } => [state, histogram, 0, 0, 0],
        };
        bytes.map(|bytes| regions.add(bytes))
    }

    /// Words of the state that are cleared first: ticket, digits, finished bins.
    pub(super) fn cleared_words(&self) -> u64 {
        4 + 2 * u64::from(self.bins)
    }

    /// Dynamic shared memory of `msm_partition`, in bytes.
    pub(super) fn partition_shared(&self) -> u64 {
        let vector_bins = u64::from(self.vector_bins);
        let digits = u64::from(self.tile_scalars) * u64::from(self.shape.scalar_digits());
        8 * vector_bins + 6 * digits
    }

    /// Splits the workspace; `None` if it is smaller than [`SortPlan::bytes`].
    pub(super) fn split_workspace<'l>(
        &self,
        workspace: DeviceSlice<'l, u8>,
    ) -> Option<SortWorkspace<'l>> {
        let [state, histogram, bucket_cursors, keys, unsorted_references] = self.regions();
        Some(SortWorkspace {
            state: region(workspace, state)?,
            histogram: region(workspace, histogram)?,
            bucket_cursors: region(workspace, bucket_cursors)?,
            keys: region(workspace, keys)?,
            unsorted_references: region(workspace, unsorted_references)?,
        })
    }
}

fn path(shape: &SortShape, capacity: &SortCapacity) -> SortPath {
    // Each block of a direct sort reads all digits of its vector, one after the other. The figures
    // behind these thresholds were not kept.
    const DIRECT_DIGITS: u64 = 3 << 14;
    // Many vectors fill the device with one block per vector; each digit is read once.
    const MANY_VECTORS: u32 = 64;
    const MANY_VECTORS_DIGITS: u64 = 1 << 17;
    let (buckets, digits) = (shape.vector_buckets(), shape.vector_digits());
    let (groups, digits_max) =
        if shape.vectors >= MANY_VECTORS { (1, MANY_VECTORS_DIGITS) } else { (4, DIRECT_DIGITS) };
    if digits <= digits_max && buckets <= u64::from(groups) * DIRECT_BUCKETS {
        return SortPath::Direct { groups };
    }
    let low_bits = low_bits(shape, capacity);
    let bins = buckets.div_ceil(1 << low_bits);
    SortPath::Bins { low_bits, tile_scalars: tile_scalars(shape, capacity, bins) }
}

/// Bins of a single tile skip a kernel. That pays until there are too many bins, since every tile
/// of scalars writes a run to each: 2^8 instead of 2^10 bins save 9 % at 2^20
/// (`benches/experiments/msm.md`).
fn low_bits(shape: &SortShape, capacity: &SortCapacity) -> u32 {
    const SINGLE_BINS_MAX: u64 = 1 << 8;
    // A tile then has eight digits per bucket, which are written together.
    let usual = capacity.tile.lg_digits - 3;
    const BINS_USUAL_MAX: u64 = 1 << 11;
    let buckets = shape.vector_buckets();
    // A bin has room for a twentieth more digits than its share.
    let single =
        (shape.vector_digits() * 21).div_ceil(20 << capacity.tile.lg_digits).next_power_of_two();
    let bins = match buckets >> usual {
        _ if single <= SINGLE_BINS_MAX => single,
        bins if bins <= BINS_USUAL_MAX => bins.max(SINGLE_BINS_MAX),
        bins => bins / 2,
    };
    let bins_max = (BINS_ALL_MAX / u64::from(shape.vectors)).clamp(1, BINS_MAX);
    let low_bits = lg_ceil(buckets.div_ceil(bins.min(bins_max).max(1)));
    low_bits.min(capacity.low_bits_max)
}

/// Scalars per tile: more give longer runs, fewer give more blocks. Large sorts use the largest
/// tiles of which two blocks fit a multiprocessor: 7 % less time at 2^22
/// (`benches/experiments/msm.md`).
fn tile_scalars(shape: &SortShape, capacity: &SortCapacity, bins: u64) -> u32 {
    let shared = u64::from(capacity.partition_shared_max).saturating_sub(8 * bins);
    let staged_max = (shared / 6) as u32;
    let (tile_max, staged) = match shape.digits_max() {
        0..=0x20_0000 => (256, staged_max.min(STAGED_DIGITS_MAX)),
        0x20_0001..=0x80_0000 => (512, staged_max.min(STAGED_DIGITS_MAX)),
        0x80_0001..=0x200_0000 => (1024, staged_max.min(STAGED_DIGITS_MAX)),
        _ => (1536, staged_max),
    };
    let scalars = staged / shape.scalar_digits();
    // A warp reads 32 scalars at a time, a block 512.
    let whole = if scalars >= 512 { scalars / 128 * 128 } else { scalars / 32 * 32 };
    whole.min(tile_max)
}
