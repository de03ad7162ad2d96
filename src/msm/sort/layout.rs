//! How a sort is cut into tiles and bins, and where its workspace has what.

use super::{Shape, SortCapacity};
use crate::device::{ALIGN, Span};

/// Bins of a vector: `BINS_MAX` in kernels/msm/bins.cuh.
const BINS_MAX: u64 = 1 << 12;
/// Bins of all vectors: one block plans them.
const BINS_ALL_MAX: u64 = 1 << 17;
/// Buckets of a vector: `BUCKET_BITS` in kernels/msm/sort.cu.
const BUCKETS_MAX: u64 = 1 << 24;
/// Buckets and digits of all vectors: references are 31 bits.
const BUCKETS_ALL_MAX: u64 = 1 << 28;
const DIGITS_MAX: u64 = 1 << 31;
/// Buckets of a block of `msm_sort_direct`: `DIRECT_BUCKETS` there.
const DIRECT_BUCKETS: u64 = 1 << 12;

/// Digits of a tile of scalars at most, if that is the choice of [`Layout::of`].
const STAGED_MAX: u32 = 12 << 10;

/// How the digits of a [`Shape`] are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// By bins of 2^`low_bits` neighbouring buckets, from tiles of `tile_scalars` scalars.
    Bins {
        /// log2 of the buckets of a bin, 12 at most.
        low_bits: u32,
        /// Scalars that a block takes at a time.
        tile_scalars: u32,
    },
    /// Straight to their places, by `groups` blocks a vector that each look at all its digits.
    Direct {
        /// Each has an equal run of buckets, 4096 at most.
        groups: u32,
    },
}

/// Sizes that follow from a shape and a path. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(super) shape: Shape,
    pub(super) capacity: SortCapacity,
    pub(super) path: Path,
    pub(super) low_bits: u32,
    pub(super) tile_scalars: u32,
    /// Tiles of scalars, of all vectors.
    pub(super) scalar_tiles: u32,
    /// Coarse bins of a vector, and of all vectors.
    pub(super) vector_bins: u32,
    pub(super) bins: u32,
    /// Tiles of digits at most.
    pub(super) digit_tiles: u32,
}

/// The workspace, cut up.
pub(super) struct Workspace<'l> {
    pub state: Span<'l, u32>,
    pub histogram: Span<'l, u16>,
    pub places: Span<'l, u32>,
    pub keys: Span<'l, u16>,
    pub payloads: Span<'l, u32>,
}

impl Layout {
    /// The path that measured fastest for such a shape. `None` if the shape is too large: 2^24
    /// buckets a vector (fewer on devices of little shared memory), 2^28 in all, 2^31 digits.
    pub fn of(shape: Shape, capacity: SortCapacity) -> Option<Self> {
        Self::along(shape, capacity, path(&shape, &capacity))
    }

    /// Along a path of the caller's choice. `None` if the kernels have no room for it.
    pub fn along(shape: Shape, capacity: SortCapacity, path: Path) -> Option<Self> {
        let (buckets, vectors) = (shape.vector_buckets(), u64::from(shape.vectors));
        let digits = shape.digits_max();
        if buckets > BUCKETS_MAX || buckets * vectors > BUCKETS_ALL_MAX || digits >= DIGITS_MAX {
            return None;
        }
        let (low_bits, tile_scalars) = match path {
            Path::Bins { low_bits, tile_scalars } => (low_bits, tile_scalars),
            // Counts vectors, each of which is a bin.
            Path::Direct { .. } => (ceil_log2(buckets), tile_scalars(&shape, &capacity, 1)),
        };
        let tiles = vectors * u64::from(shape.n.div_ceil(tile_scalars.max(1)));
        let vector_bins = buckets.div_ceil(1 << low_bits);
        let bins = vectors * vector_bins;
        let layout = Self {
            shape,
            capacity,
            path,
            low_bits,
            tile_scalars,
            scalar_tiles: u32::try_from(tiles).ok()?,
            vector_bins: u32::try_from(vector_bins).ok()?,
            bins: u32::try_from(bins).ok()?,
            digit_tiles: u32::try_from((digits >> capacity.lg_tile) + bins).ok()?,
        };
        let fits = match path {
            Path::Bins { .. } => {
                tile_scalars > 0
                    && low_bits <= capacity.low_bits_max
                    && vector_bins <= BINS_MAX
                    && layout.partition_shared() <= capacity.partition_shared_max.into()
            }
            Path::Direct { groups } => buckets <= u64::from(groups) * DIRECT_BUCKETS,
        };
        (fits && bins <= BINS_ALL_MAX).then_some(layout)
    }

    /// What is sorted.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How.
    pub fn path(&self) -> Path {
        self.path
    }

    /// The names of the kernels that sort this way.
    pub fn kernels(&self) -> Vec<String> {
        let counts = ["msm_clear_bins", "msm_count_bins"];
        let names = match self.path {
            Path::Bins { .. } => [&counts[..], &["msm_partition", "msm_count_buckets"]].concat(),
            Path::Direct { .. } if self.shape.vectors > 1 => counts.to_vec(),
            Path::Direct { .. } => Vec::new(),
        };
        let last = match self.path {
            Path::Bins { .. } => self.capacity.sort_kernel(),
            Path::Direct { .. } => "msm_sort_direct".to_owned(),
        };
        names.into_iter().map(str::to_owned).chain([last]).collect()
    }

    /// Bytes of the workspace.
    pub fn bytes(&self) -> u64 {
        self.parts().iter().map(|bytes| bytes.next_multiple_of(ALIGN)).sum()
    }

    /// Bytes of state, histogram, places, keys, payloads.
    fn parts(&self) -> [u64; 5] {
        let digits = self.shape.digits_max();
        let state = 4 * (self.cleared_words() + 3 * u64::from(self.bins) + 2);
        let state = state + 4 * u64::from(self.digit_tiles);
        let histogram = 2 * u64::from(self.scalar_tiles) * u64::from(self.vector_bins);
        match self.path {
            Path::Bins { .. } => {
                [state, histogram, 4 * self.shape.buckets(), 2 * digits, 4 * digits]
            }
            Path::Direct { .. } => [state, histogram, 0, 0, 0],
        }
    }

    /// Words of the state that must be 0 at first: ticket, digits, finished.
    pub(super) fn cleared_words(&self) -> u64 {
        4 + 2 * u64::from(self.bins)
    }

    /// Dynamic shared memory of `msm_partition`, in bytes.
    pub(super) fn partition_shared(&self) -> u64 {
        let vector_bins = u64::from(self.vector_bins);
        let digits = u64::from(self.tile_scalars) * u64::from(self.shape.scalar_digits());
        8 * vector_bins + 6 * digits
    }

    /// `None` where the workspace is smaller than [`Layout::bytes`].
    pub(super) fn cut<'l>(&self, work: Span<'l, u8>) -> Option<Workspace<'l>> {
        let mut at = 0;
        let mut parts = [work; 5];
        for (part, bytes) in parts.iter_mut().zip(self.parts()) {
            *part = work.part(at, bytes as usize)?;
            at += bytes.next_multiple_of(ALIGN) as usize;
        }
        let [state, histogram, places, keys, payloads] = parts;
        Some(Workspace {
            state: state.cast()?,
            histogram: histogram.cast()?,
            places: places.cast()?,
            keys: keys.cast()?,
            payloads: payloads.cast()?,
        })
    }
}

fn ceil_log2(a: u64) -> u32 {
    a.next_power_of_two().ilog2()
}

fn path(shape: &Shape, capacity: &SortCapacity) -> Path {
    // Blocks of a direct sort look at all digits of their vector, one after the other.
    const DIRECT_DIGITS: u64 = 3 << 14;
    // Enough vectors fill the device with one block each, and repeat nothing.
    const MANY: u32 = 64;
    const MANY_DIGITS: u64 = 1 << 17;
    let (buckets, digits) = (shape.vector_buckets(), shape.vector_digits());
    let groups = if shape.vectors >= MANY { 1 } else { 4 };
    let most = if shape.vectors >= MANY { MANY_DIGITS } else { DIRECT_DIGITS };
    if digits <= most && buckets <= u64::from(groups) * DIRECT_BUCKETS {
        return Path::Direct { groups };
    }
    let low_bits = low_bits(shape, capacity);
    let bins = buckets.div_ceil(1 << low_bits);
    Path::Bins { low_bits, tile_scalars: tile_scalars(shape, capacity, bins) }
}

/// Bins of one tile skip a kernel: that pays until there are too many bins, since every tile of
/// scalars writes a run to each. Prototype on an H200, ms by number of bins: 2^16 scalars 2^6 .040,
/// 2^7 .029; 2^18 2^7 .070, 2^8 .064; 2^20 2^8 .224, 2^9 .229, 2^10 .247; 2^24 2^10 3.47,
/// 2^11 4.10.
fn low_bits(shape: &Shape, capacity: &SortCapacity) -> u32 {
    const SINGLE_BINS_MAX: u64 = 1 << 8;
    // A tile has eight digits of each of its buckets, which are written together.
    let usual = capacity.lg_tile - 3;
    const BINS_USUAL_MAX: u64 = 1 << 11;
    let buckets = shape.vector_buckets();
    // A twentieth more than its share of digits fits a bin.
    let single = (shape.vector_digits() * 21).div_ceil(20 << capacity.lg_tile).next_power_of_two();
    let bins = match buckets >> usual {
        _ if single <= SINGLE_BINS_MAX => single,
        bins if bins <= BINS_USUAL_MAX => bins.max(SINGLE_BINS_MAX),
        bins => bins / 2,
    };
    let most = (BINS_ALL_MAX / u64::from(shape.vectors)).clamp(1, BINS_MAX);
    let low_bits = ceil_log2(buckets.div_ceil(bins.min(most).max(1)));
    low_bits.min(capacity.low_bits_max)
}

/// Scalars of a tile: more make longer runs, fewer more blocks. Prototype on an H200: 2^24 in tiles
/// of 512 3.57 ms, of 1024 2.65; 2^16 wants 256, 2^18 512, 2^20 768. Where there are tiles enough,
/// as large ones as two blocks a multiprocessor leave room for: 2^22, 12 windows, 896 0.98 ms, 960
/// 0.98, 1120 0.93, 1232 0.91; 2^24 3.80, 3.42 with 1120, 3.36 with 1232.
fn tile_scalars(shape: &Shape, capacity: &SortCapacity, bins: u64) -> u32 {
    let room = u64::from(capacity.partition_shared_max).saturating_sub(8 * bins);
    let fit = (room / 6) as u32;
    let (most, staged) = match shape.digits_max() {
        0..=0x20_0000 => (256, fit.min(STAGED_MAX)),
        0x20_0001..=0x80_0000 => (512, fit.min(STAGED_MAX)),
        0x80_0001..=0x200_0000 => (1024, fit.min(STAGED_MAX)),
        _ => (1536, fit),
    };
    let fit = staged / shape.scalar_digits();
    // A warp takes 32 at a time, a block 512.
    let whole = if fit >= 512 { fit / 128 * 128 } else { fit / 32 * 32 };
    whole.min(most)
}
