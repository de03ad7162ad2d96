//! Which passes a transform is made of. Pure: numbers in, numbers out.

use crate::device::{Block, DeviceLimits};

/// Bytes of an element.
const ELEMENT: u32 = size_of::<super::Element>() as u32;

/// log2 of the longest transform: four passes, and 32 GiB of elements.
pub const LG_N_MAX: u32 = 30;

/// Longest row that one pass transforms, and that a pass may have: its tile fits in shared memory.
const LG_ROW_MAX: u32 = 10;

/// Up to so many elements the device is not full, and what counts is how long a thread takes: two
/// elements a thread. 2^16 in two passes of radix 2^8 took 17.6 us on an H200.
const LG_SMALL: u32 = 17;

/// So many rows of the longest kind are two passes, each: one thread block takes 13.7 us for such a
/// row (H200), because one multiprocessor computes it all.
const FEW_ROWS: usize = 4;

/// What a device has for the tiles and tables of transforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransformLimits {
    /// log2 of the elements of a tile at most.
    pub lg_tile_max: u32,
    /// From transforms of 2^lg_one_kept elements on, the first border's table keeps one multiple a
    /// factor: data and table are larger than the second-level cache. On an H200 that is 2^20,
    /// where a table of two multiples was 3 % slower, and of longer transforms no faster.
    pub lg_one_kept: u32,
}

/// log2 of the elements of the largest tiles: 64 KiB of shared memory, or 32.
const LG_TILES: [u32; 2] = [11, 10];

impl TransformLimits {
    /// The largest tile of which two fit a multiprocessor, so that one computes while the other
    /// waits for memory.
    pub fn of(limits: &DeviceLimits) -> Self {
        let two_fit = |lg_tile: &u32| {
            let shared_bytes = ELEMENT << lg_tile;
            limits.resident_blocks(Block { threads: 1, shared_bytes }) >= 2
        };
        let lg_tile_max = LG_TILES.into_iter().find(two_fit).unwrap_or(LG_TILES[1]);
        // An element of data and one of the table.
        let lg_one_kept = (u64::from(limits.l2_bytes) / u64::from(2 * ELEMENT)).max(1).ilog2() + 1;
        Self { lg_tile_max, lg_one_kept }
    }
}

/// Which way a transform goes through the bits of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Natural order to bit-reversed.
    Descend,
    /// Bit-reversed order to natural.
    Ascend,
}

/// A pass of radix 2^lg_r: see `kernels/ntt/passes.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pass {
    /// log2 of the rows' length, or of how many rows.
    pub lg_r: u32,
    /// log2 of how many columns, or rows, a thread block takes.
    pub lg_c: u32,
    /// log2 of the elements a thread has; divides `lg_r`.
    pub lg_e: u32,
    /// Multiples that are kept of the factors at this pass's border, 1 or 2; 0 for a pass that has
    /// none, which is the last one downward and the first one upward, and merged ones but the last.
    /// Of merged rows: of the last step's factors.
    pub kept: u32,
    /// Whether factors are merged into butterflies: see `kernels/ntt/merged.cuh`.
    pub merged: bool,
}

impl Pass {
    /// log2 of a thread block's elements.
    pub const fn lg_tile(&self) -> u32 {
        self.lg_r + self.lg_c
    }
}

/// Radices and elements a thread of the passes downward, as logarithms, where the device is full.
///
/// Four elements a thread and radices that have kernels of one shape (kernels.rs) where they can
/// be: on an H200, before there were these, four passes of radix 2^6 did 2^24 in 3.06 ms and upward
/// in 2.95, those of 2^9 with eight elements a thread in 3.14 and 3.09.
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
    &[(6, 2), (8, 2), (8, 2), (8, 2)], // 2^30: its first border is in two levels
];

/// Columns' passes with merged factors that there are kernels for, both ways.
pub(super) const MERGED: [Pass; 4] =
    [merged(6, 2, 0), merged(6, 2, 1), merged(8, 2, 0), merged(8, 2, 1)];
/// The same of rows' passes.
pub(super) const MERGED_ROWS: [Pass; 2] = [merged(8, 0, 2), merged(10, 0, 4)];
/// One more, downward.
pub(super) const MERGED_SPREAD: Pass = merged(8, 1, 2);

/// log2 of the row that may be merged where it is all of a transform.
const LG_ALONE: u32 = 10;

/// Up to here rows' passes are merged, too, where the device is full: 256 of 2^16 take 1.78 ms for
/// 1.84 (H200). Their tables have 80 bytes for each element, which is more than products saved are
/// worth where one transform is all: 2^18 took 43 us for 39, 2^20 156 for 150, 2^22 653 for 647.
const LG_WHOLLY_MERGED: u32 = 16;

const fn merged(lg_r: u32, lg_c: u32, kept: u32) -> Pass {
    Pass { lg_r, lg_c, lg_e: 2, kept, merged: true }
}

/// The passes of `rows` transforms of 2^lg_n elements, in the order they run.
///
/// `turned`: the last pass changes the order. Shape: lg_n at most [`LG_N_MAX`]; no pass for
/// lg_n = 0.
pub fn passes(
    lg_n: u32,
    rows: usize,
    way: Way,
    turned: bool,
    limits: &TransformLimits,
) -> Vec<Pass> {
    let radices = radices(lg_n, rows);
    let last = radices.len().saturating_sub(1);
    let mut lg_block = lg_n;
    let mut passes = Vec::new();
    for (i, &(lg_r, lg_e)) in radices.iter().enumerate() {
        let pass = if i < last {
            let kept = if i == 0 && lg_n >= limits.lg_one_kept && lg_e > 1 { 1 } else { 2 };
            let lg_c = columns(lg_r, lg_e).min(lg_block - lg_r).min(limits.lg_tile_max - lg_r);
            Pass { lg_r, lg_c, lg_e, kept, merged: false }
        } else {
            let spread = turned && way == Way::Descend && last > 0 && lg_e > 1;
            // A tile may have more rows than there are transforms.
            let most = if last > 0 { lg_n - lg_r } else { u32::MAX };
            let most = most.min(limits.lg_tile_max - lg_r);
            let lg_c = rows_of_tile(lg_r, lg_e, spread).min(most);
            Pass { lg_r, lg_c, lg_e, kept: 0, merged: false }
        };
        passes.push(pass);
        lg_block -= lg_r;
    }
    if way == Way::Ascend {
        passes.reverse();
    }
    passes
}

/// The same passes with merged factors; `None` where they are too few or there are no kernels for
/// them. `wholly`: the rows' pass is merged, too, where it may be; else there is one border, with
/// a table of the whole transform.
///
/// By products of limbs, that is 968 for each element of 2^24 instead of 1020; 803 instead of
/// 826 of 2^20; 602 instead of 615 of 2^16, wholly only.
pub fn merge(passes: &[Pass], way: Way, wholly: bool) -> Option<Vec<Pass>> {
    let mut downward = passes.to_vec();
    if way == Way::Ascend {
        downward.reverse();
    }
    let all = if wholly { merge_wholly(&downward, way) } else { None };
    let mut merged = all.or_else(|| merge_columns(&downward))?;
    if way == Way::Ascend {
        merged.reverse();
    }
    Some(merged)
}

/// All of what is given downward.
fn merge_wholly(passes: &[Pass], way: Way) -> Option<Vec<Pass>> {
    let (last, columns) = passes.split_last()?;
    let lg_n: u32 = passes.iter().map(|pass| pass.lg_r).sum();
    if lg_n > LG_WHOLLY_MERGED || (columns.is_empty() && lg_n != LG_ALONE) {
        return None;
    }
    let spread = (way == Way::Descend).then_some(MERGED_SPREAD);
    let mut rows = MERGED_ROWS.into_iter().chain(spread);
    let is_like = |pass: &Pass| (pass.lg_r, pass.lg_c, pass.lg_e) == (last.lg_r, last.lg_c, 2);
    let last = rows.find(|pass| last.lg_e == 2 && is_like(pass))?;
    let merged = |pass: &Pass| {
        let pass = Pass { kept: 0, merged: true, ..*pass };
        MERGED.contains(&pass).then_some(pass)
    };
    let columns: Option<Vec<_>> = columns.iter().map(merged).collect();
    Some(columns?.into_iter().chain([last]).collect())
}

/// All of what is given downward but the rows' pass.
fn merge_columns(passes: &[Pass]) -> Option<Vec<Pass>> {
    let (last, columns) = passes.split_last().filter(|(last, _)| last.kept == 0)?;
    let border = columns.len().checked_sub(1).filter(|border| *border > 0)?;
    let merged = |(i, pass): (usize, &Pass)| {
        let pass = Pass { kept: u32::from(i == border), merged: true, ..*pass };
        MERGED.contains(&pass).then_some(pass)
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
    if lg_n + lg_above(rows) <= LG_SMALL {
        return vec![(lg_n.div_ceil(2), 1), (lg_n / 2, 1)];
    }
    RADICES[(lg_n - LG_ROW_MAX - 1) as usize].to_vec()
}

/// log2 of the least power of two that is not below `count`.
fn lg_above(count: usize) -> u32 {
    count.next_power_of_two().ilog2()
}

/// log2 of a tile's columns: rows of 128 bytes, of 64 where few blocks matter more; more columns
/// where they would leave a block too small.
fn columns(lg_r: u32, lg_e: u32) -> u32 {
    let least = if lg_e == 1 { 1 } else { 2 };
    least.max((lg_threads(lg_r, lg_e) + lg_e).saturating_sub(lg_r))
}

/// log2 of a block's threads at least: two warps; one for the passes of a single 2^10, whose blocks
/// then each have a multiprocessor, and barriers are free.
const fn lg_threads(lg_r: u32, lg_e: u32) -> u32 {
    if lg_r == 5 && lg_e == 1 { 5 } else { 6 }
}

/// log2 of how many rows a tile has: as few as make a block. `spread`: where results of
/// neighbours are stored together, at least two for 64 bytes; not of the longest rows, of which a
/// multiprocessor could have one tile only. With few threads it gains nothing: 22.6 us against 23.1
/// for 2^16.
fn rows_of_tile(lg_r: u32, lg_e: u32, spread: bool) -> u32 {
    let least = u32::from(spread && lg_r < LG_ROW_MAX);
    least.max((lg_threads(lg_r, lg_e) + lg_e).saturating_sub(lg_r))
}
