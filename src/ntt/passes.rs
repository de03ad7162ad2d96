//! Splits a transform into passes. Pure: numbers in, numbers out.

use crate::device::{BlockShape, DeviceLimits};

/// Bytes of an element.
const ELEMENT: u32 = size_of::<super::DeviceFr>() as u32;

/// log2 of the longest transform: four passes, and 32 GiB of elements.
pub const LG_N_MAX: u32 = 30;

/// log2 of the longest row of a pass, whose tile fits in shared memory.
const LG_ROW_MAX: u32 = 10;

/// log2 of the most elements that leave the device partly idle. Latency counts then: two elements
/// per thread. 2^16 in two passes of radix 2^8 take 17.6 us on an H200.
const LG_LATENCY_BOUND_MAX: u32 = 17;

/// At most this many rows of the longest length use two passes each: a single multiprocessor would
/// compute each row, in 13.7 us (H200).
const FEW_ROWS: usize = 4;

/// Limits of a device for tiles and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttLimits {
    /// log2 of the most elements per tile.
    pub lg_tile_max: u32,
    /// From 2^`lg_single_multiple` elements on, the first inter-pass table keeps one multiple per
    /// twiddle, because data and table exceed the L2 cache. On an H200 that is 2^20, where two
    /// multiples are 3 % slower, and for longer transforms no faster.
    pub lg_single_multiple: u32,
}

/// log2 of the elements of the largest tiles, which need 64 or 32 KiB of shared memory.
const LG_TILES: [u32; 2] = [11, 10];

impl NttLimits {
    /// The largest tile of which two fit a multiprocessor, so that one computes while the other
    /// waits for memory.
    pub fn of(limits: &DeviceLimits) -> Self {
        let two_fit = |lg_tile: &u32| {
            let shared_bytes = ELEMENT << lg_tile;
            limits.resident_blocks(BlockShape { threads: 1, shared_bytes }) >= 2
        };
        let lg_tile_max = LG_TILES.into_iter().find(two_fit).unwrap_or(LG_TILES[1]);
        // One element of data and one of the table.
        let lg_single_multiple =
            (u64::from(limits.l2_bytes) / u64::from(2 * ELEMENT)).max(1).ilog2() + 1;
        Self { lg_tile_max, lg_single_multiple }
    }
}

/// The decimation order of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decimation {
    /// Decimation in frequency (DIF, Gentleman-Sande): natural to bit-reversed order.
    Dif,
    /// Decimation in time (DIT, Cooley-Tukey): bit-reversed to natural order.
    Dit,
}

/// A pass of radix 2^lg_r: see `kernels/ntt/passes.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NttPass {
    /// log2 of the radix: the length of rows, or the number of rows that columns cross.
    pub lg_r: u32,
    /// log2 of the columns or rows per thread block.
    pub lg_c: u32,
    /// log2 of the elements per thread; divides `lg_r`.
    pub lg_e: u32,
    /// Precomputed (Shoup-style) multiples of each inter-pass twiddle, 1 or 2. 0 for passes without
    /// inter-pass twiddles: the rows' pass (last in DIF order, first in DIT order) and fused passes
    /// but the last. For fused rows' passes: multiples of the last step's twiddles.
    pub multiples: u32,
    /// Whether twiddles are fused into butterflies: see `kernels/ntt/fused.cuh`.
    pub fused: bool,
}

impl NttPass {
    /// log2 of the elements per thread block.
    pub const fn lg_tile(&self) -> u32 {
        self.lg_r + self.lg_c
    }
}

/// Radices and elements per thread of the passes in DIF order, as logarithms, for a full device.
///
/// Prefers four elements per thread and radices with specialised kernels (kernels.rs). Even without
/// these, 2^24 took 3.06 ms in four passes of radix 2^6 and 3.14 with radix 2^9 and eight elements
/// per thread (H200).
const RADICES: [&[(u32, u32)]; 20] = [
    &[(3, 3), (8, 2)], // 2^11
    &[(6, 2), (6, 2)],
    &[(9, 3), (4, 2)],
    &[(6, 2), (8, 2)],
    &[(9, 3), (6, 2)],
    &[(8, 2), (8, 2)], // 2^16
    &[(9, 3), (8, 2)],
    &[(6, 2), (6, 2), (6, 2)],
    &[(9, 3), (10, 2)],
    &[(6, 2), (6, 2), (8, 2)], // 2^20
    &[(9, 3), (6, 2), (6, 2)],
    &[(8, 2), (6, 2), (8, 2)],
    &[(9, 3), (6, 2), (8, 2)],
    &[(6, 2), (6, 2), (6, 2), (6, 2)], // 2^24
    &[(9, 3), (8, 2), (8, 2)],
    &[(6, 2), (6, 2), (6, 2), (8, 2)],
    &[(9, 3), (8, 2), (10, 2)],
    &[(6, 2), (6, 2), (8, 2), (8, 2)], // 2^28
    &[(9, 3), (6, 2), (6, 2), (8, 2)],
    &[(6, 2), (8, 2), (8, 2), (8, 2)], // 2^30: its first inter-pass table has two levels
];

/// Columns' passes with fused twiddles that have kernels, in both orders.
pub(super) const FUSED_COLUMNS: [NttPass; 4] =
    [fused_pass(6, 2, 0), fused_pass(6, 2, 1), fused_pass(8, 2, 0), fused_pass(8, 2, 1)];
/// Rows' passes with fused twiddles that have kernels.
pub(super) const FUSED_ROWS: [NttPass; 2] = [fused_pass(8, 0, 2), fused_pass(10, 0, 4)];
/// One more rows' pass, DIF only.
pub(super) const FUSED_DIF_ROWS: NttPass = fused_pass(8, 1, 2);

/// log2 of the row that may be fused if it is a whole transform.
const LG_WHOLE_ROW: u32 = 10;

/// log2 of the longest transform whose rows' pass is fused, too, on a full device: 256 of 2^16 are
/// 3 % faster (H200). The tables take 80 bytes per element, which outweighs the saved products for
/// a single transform: 2^18 is 10 % slower, 2^20 4 %, 2^22 1 %.
const LG_FULLY_FUSED_MAX: u32 = 16;

const fn fused_pass(lg_r: u32, lg_c: u32, kept: u32) -> NttPass {
    NttPass { lg_r, lg_c, lg_e: 2, multiples: kept, fused: true }
}

/// The passes of `rows` transforms of 2^lg_n elements, in the order they run.
///
/// `turned`: the last pass does a bit reversal. Shape: lg_n is at most [`LG_N_MAX`]; no passes for
/// lg_n = 0.
pub fn split_into_passes(
    lg_n: u32,
    rows: usize,
    way: Decimation,
    turned: bool,
    limits: &NttLimits,
) -> Vec<NttPass> {
    let radices = radices(lg_n, rows);
    let last = radices.len().saturating_sub(1);
    let mut lg_block = lg_n;
    let mut passes = Vec::new();
    for (i, &(lg_r, lg_e)) in radices.iter().enumerate() {
        let pass = if i < last {
            let kept = if i == 0 && lg_n >= limits.lg_single_multiple && lg_e > 1 { 1 } else { 2 };
            let lg_c =
                lg_tile_columns(lg_r, lg_e).min(lg_block - lg_r).min(limits.lg_tile_max - lg_r);
            NttPass { lg_r, lg_c, lg_e, multiples: kept, fused: false }
        } else {
            let spread = turned && way == Decimation::Dif && last > 0 && lg_e > 1;
            // A tile may have more rows than there are transforms.
            let most = if last > 0 { lg_n - lg_r } else { u32::MAX };
            let most = most.min(limits.lg_tile_max - lg_r);
            let lg_c = lg_tile_rows(lg_r, lg_e, spread).min(most);
            NttPass { lg_r, lg_c, lg_e, multiples: 0, fused: false }
        };
        passes.push(pass);
        lg_block -= lg_r;
    }
    if way == Decimation::Dit {
        passes.reverse();
    }
    passes
}

/// The passes with fused twiddles; `None` if they are too few or have no kernels. `wholly`: also
/// fuses the rows' pass if possible; otherwise one inter-pass table for the whole transform
/// remains.
///
/// Limb products per element: 968 instead of 1020 for 2^24, 803 instead of 826 for 2^20; 602
/// instead of 615 for 2^16, wholly only.
pub fn fuse_twiddles(passes: &[NttPass], way: Decimation, wholly: bool) -> Option<Vec<NttPass>> {
    let mut downward = passes.to_vec();
    if way == Decimation::Dit {
        downward.reverse();
    }
    let all = if wholly { fuse_all_passes(&downward, way) } else { None };
    let mut merged = all.or_else(|| fuse_columns(&downward))?;
    if way == Decimation::Dit {
        merged.reverse();
    }
    Some(merged)
}

/// Fuses all passes, given in DIF order.
fn fuse_all_passes(passes: &[NttPass], way: Decimation) -> Option<Vec<NttPass>> {
    let (last, columns) = passes.split_last()?;
    let lg_n: u32 = passes.iter().map(|pass| pass.lg_r).sum();
    if lg_n > LG_FULLY_FUSED_MAX || (columns.is_empty() && lg_n != LG_WHOLE_ROW) {
        return None;
    }
    let spread = (way == Decimation::Dif).then_some(FUSED_DIF_ROWS);
    let mut rows = FUSED_ROWS.into_iter().chain(spread);
    let is_like = |pass: &NttPass| (pass.lg_r, pass.lg_c, pass.lg_e) == (last.lg_r, last.lg_c, 2);
    let last = rows.find(|pass| last.lg_e == 2 && is_like(pass))?;
    let merged = |pass: &NttPass| {
        let pass = NttPass { multiples: 0, fused: true, ..*pass };
        FUSED_COLUMNS.contains(&pass).then_some(pass)
    };
    let columns: Option<Vec<_>> = columns.iter().map(merged).collect();
    Some(columns?.into_iter().chain([last]).collect())
}

/// Fuses all passes, given in DIF order, but the rows' pass.
fn fuse_columns(passes: &[NttPass]) -> Option<Vec<NttPass>> {
    let (last, columns) = passes.split_last().filter(|(last, _)| last.multiples == 0)?;
    let border = columns.len().checked_sub(1).filter(|border| *border > 0)?;
    let merged = |(i, pass): (usize, &NttPass)| {
        let pass = NttPass { multiples: u32::from(i == border), fused: true, ..*pass };
        FUSED_COLUMNS.contains(&pass).then_some(pass)
    };
    let columns: Option<Vec<_>> = columns.iter().enumerate().map(merged).collect();
    Some(columns?.into_iter().chain([*last]).collect())
}

fn radices(lg_n: u32, rows: usize) -> Vec<(u32, u32)> {
    let in_pairs = |lg_r: u32| (lg_r, if lg_r.is_multiple_of(2) { 2 } else { 1 });
    if lg_n == 0 {
        return Vec::new();
    }
    if lg_n == LG_ROW_MAX && rows <= FEW_ROWS {
        return vec![(5, 1), (5, 1)];
    }
    if lg_n <= LG_ROW_MAX {
        return vec![in_pairs(lg_n)];
    }
    if lg_n + lg_ceil(rows) <= LG_LATENCY_BOUND_MAX {
        return vec![(lg_n.div_ceil(2), 1), (lg_n / 2, 1)];
    }
    RADICES[(lg_n - LG_ROW_MAX - 1) as usize].to_vec()
}

/// log2 of `count`, rounded up.
fn lg_ceil(count: usize) -> u32 {
    count.next_power_of_two().ilog2()
}

/// log2 of a tile's columns: rows of 128 bytes, or of 64 to have more blocks; more columns if a
/// block would be too small.
fn lg_tile_columns(lg_r: u32, lg_e: u32) -> u32 {
    let least = if lg_e == 1 { 1 } else { 2 };
    least.max((lg_threads(lg_r, lg_e) + lg_e).saturating_sub(lg_r))
}

/// log2 of the fewest threads per block: two warps; one for the passes of a single 2^10, where each
/// block has a multiprocessor to itself and barriers are free.
const fn lg_threads(lg_r: u32, lg_e: u32) -> u32 {
    if lg_r == 5 && lg_e == 1 { 5 } else { 6 }
}

/// log2 of the rows per tile: the fewest that fill a block. `spread`: if a bit reversal stores
/// neighbours' results together, at least two, for 64 bytes; not for the longest rows, of which a
/// multiprocessor would hold one tile only. With few threads it gains nothing: 22.6 us instead of
/// 23.1 for 2^16.
fn lg_tile_rows(lg_r: u32, lg_e: u32, spread: bool) -> u32 {
    let least = u32::from(spread && lg_r < LG_ROW_MAX);
    least.max((lg_threads(lg_r, lg_e) + lg_e).saturating_sub(lg_r))
}
