//! Splits a transform into passes. Pure: numbers in, numbers out.

use super::elements::ELEMENT_BYTES;
use crate::{
    curve::{Decimation, NttPlan},
    device::{BlockShape, DeviceLimits},
};

/// log2 of the longest row of a pass, whose tile fits in shared memory.
pub(super) const LG_ROW_MAX: u32 = 10;

/// log2 of the most elements that leave the device partly idle. Latency counts then: two elements
/// per thread (`benches/experiments/ntt.md`).
const LG_LATENCY_BOUND_MAX: u32 = 17;

/// At most this many rows of the longest length use two passes each: a single multiprocessor would
/// compute each row (`benches/experiments/ntt.md`).
const FEW_ROWS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttLimits {
    /// log2 of the most elements per tile.
    pub lg_tile_max: u32,
    /// From 2^`lg_single_multiple` elements on, the first inter-pass table keeps one multiple per
    /// twiddle, because data and table exceed the L2 cache: two multiples are 3 % slower at 2^20 on
    /// an H200 (`benches/experiments/ntt.md`).
    pub lg_single_multiple: u32,
}

/// log2 of the elements of the largest tiles, which need 64 or 32 KiB of shared memory.
const LG_TILES: [u32; 2] = [11, 10];

impl NttLimits {
    /// The largest tile of which two fit a multiprocessor, so that one computes while the other
    /// waits for memory.
    pub fn of(limits: &DeviceLimits) -> Self {
        let two_fit = |lg_tile: &u32| {
            let shared_bytes = (ELEMENT_BYTES as u32) << lg_tile;
            limits.resident_blocks(BlockShape { threads: 1, shared_bytes }) >= 2
        };
        let lg_tile_max = LG_TILES.into_iter().find(two_fit).unwrap_or(LG_TILES[1]);
        // One element of data and one of the table.
        let lg_single_multiple =
            (u64::from(limits.l2_bytes) / (2 * ELEMENT_BYTES)).max(1).ilog2() + 1;
        Self { lg_tile_max, lg_single_multiple }
    }
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

#[derive(Clone, Copy)]
struct Radix {
    lg_r: u32,
    lg_e: u32,
}

/// log2 of the radices of the passes in DIF order, for a full device. Even ones take four elements
/// per thread, odd ones eight.
///
/// Prefers radices with specialised kernels (kernels.rs) and four elements per thread, which are
/// 3 % faster at 2^24 than eight (`benches/experiments/ntt.md`).
const LG_RADICES: [&[u32]; 20] = [
    &[3, 8], // 2^11
    &[6, 6],
    &[9, 4],
    &[6, 8],
    &[9, 6],
    &[8, 8], // 2^16
    &[9, 8],
    &[6, 6, 6],
    &[9, 10],
    &[6, 6, 8], // 2^20
    &[9, 6, 6],
    &[8, 6, 8],
    &[9, 6, 8],
    &[6, 6, 6, 6], // 2^24
    &[9, 8, 8],
    &[6, 6, 6, 8],
    &[9, 8, 10],
    &[6, 6, 8, 8], // 2^28
    &[9, 6, 6, 8],
    &[6, 8, 8, 8], // 2^30: its first inter-pass table has two levels
];

/// Columns' passes with fused twiddles that have kernels, in both orders.
pub(super) const FUSED_COLUMNS: [NttPass; 4] =
    [fused_pass(6, 2, 0), fused_pass(6, 2, 1), fused_pass(8, 2, 0), fused_pass(8, 2, 1)];
/// Rows' passes with fused twiddles that have kernels, the first one in DIF order only.
const FUSED_ROWS: [NttPass; 3] = [fused_pass(8, 1, 2), fused_pass(8, 0, 2), fused_pass(10, 0, 4)];

/// log2 of the row that may be fused if it is a whole transform.
const LG_WHOLE_ROW: u32 = 10;

/// log2 of the longest transform whose rows' pass is fused, too, on a full device: batches are 3 %
/// faster, single transforms slower, since the tables take 80 bytes per element
/// (`benches/experiments/ntt.md`).
const LG_FULLY_FUSED_MAX: u32 = 16;

const fn fused_pass(lg_r: u32, lg_c: u32, multiples: u32) -> NttPass {
    NttPass { lg_r, lg_c, lg_e: 2, multiples, fused: true }
}

pub(super) fn fused_rows(decimation: Decimation) -> impl Iterator<Item = NttPass> {
    FUSED_ROWS.into_iter().skip(usize::from(decimation == Decimation::Dit))
}

/// The passes of `rows` transforms, in the order they run; none for one element.
pub fn split_into_passes(transform: &NttPlan, rows: usize, limits: &NttLimits) -> Vec<NttPass> {
    let (lg_n, decimation) = (transform.lg_n, transform.decimation());
    let radices = radices(lg_n, rows);
    let last = radices.len().saturating_sub(1);
    let mut lg_block = lg_n;
    let mut passes = Vec::new();
    for (i, &radix) in radices.iter().enumerate() {
        let Radix { lg_r, lg_e } = radix;
        let (lg_c_min, lg_c_max, multiples) = if i < last {
            let is_single = i == 0 && lg_n >= limits.lg_single_multiple && lg_e > 1;
            // Rows of 128 bytes, or of 64 to have more blocks.
            let lg_c_min = if lg_e == 1 { 1 } else { 2 };
            (lg_c_min, lg_block - lg_r, if is_single { 1 } else { 2 })
        } else {
            // A bit reversal stores neighbours' results together: at least two, for 64 bytes; not
            // for the longest rows, of which a multiprocessor would hold one tile only. With few
            // threads it gains nothing (`benches/experiments/ntt.md`).
            let is_dif_reversal = transform.needs_bit_reversal() && decimation == Decimation::Dif;
            let stores_pairs = is_dif_reversal && last > 0 && lg_e > 1 && lg_r < LG_ROW_MAX;
            // A tile may have more rows than there are transforms.
            let lg_c_max = if last > 0 { lg_n - lg_r } else { u32::MAX };
            (u32::from(stores_pairs), lg_c_max, 0)
        };
        let lg_c = lg_full_block(radix).max(lg_c_min).min(lg_c_max).min(limits.lg_tile_max - lg_r);
        passes.push(NttPass { lg_r, lg_c, lg_e, multiples, fused: false });
        lg_block -= lg_r;
    }
    in_dif_order(&passes, decimation)
}

/// Passes in the order they run, in DIF order, and the other way round.
pub(super) fn in_dif_order(passes: &[NttPass], decimation: Decimation) -> Vec<NttPass> {
    let mut passes = passes.to_vec();
    if decimation == Decimation::Dit {
        passes.reverse();
    }
    passes
}

/// log2 of the block that each pass splits (DIF) or completes (DIT), in the order they run.
pub(super) fn lg_blocks(passes: &[NttPass], decimation: Decimation) -> Vec<u32> {
    let lg_block = |i| {
        let inner = if decimation == Decimation::Dif { &passes[i..] } else { &passes[..=i] };
        inner.iter().map(|pass| pass.lg_r).sum()
    };
    (0..passes.len()).map(lg_block).collect()
}

/// The passes with fused twiddles; `None` if they are too few or have no kernels. With
/// `fuse_rows`, also fuses the rows' pass if possible; otherwise one inter-pass table for the whole
/// transform remains.
///
/// Saves 2 to 5 % of the limb products (`benches/experiments/ntt.md`).
pub fn fuse_twiddles(
    passes: &[NttPass],
    decimation: Decimation,
    fuse_rows: bool,
) -> Option<Vec<NttPass>> {
    let passes = in_dif_order(passes, decimation);
    let all = if fuse_rows { fuse_all_passes(&passes, decimation) } else { None };
    let fused = all.or_else(|| fuse_columns(&passes))?;
    Some(in_dif_order(&fused, decimation))
}

/// Fuses all passes, given in DIF order.
fn fuse_all_passes(passes: &[NttPass], decimation: Decimation) -> Option<Vec<NttPass>> {
    let (rows, columns) = passes.split_last()?;
    let lg_n: u32 = passes.iter().map(|pass| pass.lg_r).sum();
    if lg_n > LG_FULLY_FUSED_MAX || (columns.is_empty() && lg_n != LG_WHOLE_ROW) {
        return None;
    }
    let shape = |pass: &NttPass| (pass.lg_r, pass.lg_c, pass.lg_e);
    let rows = fused_rows(decimation).find(|pass| shape(pass) == shape(rows))?;
    columns.iter().map(|pass| fuse(pass, 0)).chain([Some(rows)]).collect()
}

/// Fuses all passes, given in DIF order, but the rows' pass.
fn fuse_columns(passes: &[NttPass]) -> Option<Vec<NttPass>> {
    let (rows, columns) = passes.split_last().filter(|(rows, _)| rows.multiples == 0)?;
    let (last, others) = columns.split_last().filter(|(_, others)| !others.is_empty())?;
    let others = others.iter().map(|pass| fuse(pass, 0));
    others.chain([fuse(last, 1), Some(*rows)]).collect()
}

/// A columns' pass with fused twiddles, if it has a kernel.
fn fuse(pass: &NttPass, multiples: u32) -> Option<NttPass> {
    let pass = NttPass { multiples, fused: true, ..*pass };
    FUSED_COLUMNS.contains(&pass).then_some(pass)
}

/// In DIF order.
fn radices(lg_n: u32, rows: usize) -> Vec<Radix> {
    let radix = |lg_r: u32, lg_e_if_odd| {
        let lg_e = if lg_r.is_multiple_of(2) { 2 } else { lg_e_if_odd };
        Radix { lg_r, lg_e }
    };
    let latency_bound = |lg_r| Radix { lg_r, lg_e: 1 };
    match lg_n {
        0 => Vec::new(),
        LG_ROW_MAX if rows <= FEW_ROWS => [5, 5].map(latency_bound).to_vec(),
        1..=LG_ROW_MAX => vec![radix(lg_n, 1)],
        _ if lg_n + rows.next_power_of_two().ilog2() <= LG_LATENCY_BOUND_MAX => {
            [lg_n.div_ceil(2), lg_n / 2].map(latency_bound).to_vec()
        }
        _ => LG_RADICES[(lg_n - LG_ROW_MAX - 1) as usize].iter().map(|lg| radix(*lg, 3)).collect(),
    }
}

/// log2 of the fewest columns or rows that fill a block: two warps; one for the passes of a single
/// 2^10, where each block has a multiprocessor to itself and barriers are free.
const fn lg_full_block(Radix { lg_r, lg_e }: Radix) -> u32 {
    let lg_threads = if lg_r == 5 && lg_e == 1 { 5 } else { 6 };
    (lg_threads + lg_e).saturating_sub(lg_r)
}
