//! Chooses the passes of a transform, given the memory for twiddle tables. Pure: numbers in,
//! numbers out.

use super::{Pass, Transform, TransformLimits, Way, coset::is_natural, merge, passes};

/// The table cache takes 1 / `TABLES_PART` of a device's arena: 20.8 of an H200's 125 GiB, which
/// hold the first inter-pass twiddle tables of 2^28 whole, for both directions.
const TABLES_PART: u64 = 6;
/// A table takes at most 1 / `SHARE` of the cache; a larger one is built in two levels. On an H200
/// the first inter-pass table of 2^28, 8 GiB, stays whole: in two levels it costs a product per
/// element, 7 % of the transform.
const SHARE: u64 = 2;

/// Bytes of an element.
const ELEMENT: u64 = size_of::<super::Element>() as u64;
/// Upper bound on the multiples per element in the tables of a transform with all passes fused.
const WHOLLY_KEPT: u32 = 4;
/// log2 of the shortest transform with all passes fused: `kernels/ntt/merged_kernels.cuh`.
const LG_WHOLLY_MIN: u32 = 10;

/// The size in bytes of the twiddle table cache for an arena of this size, for
/// [`Transforms::load`](super::Transforms::load).
pub const fn table_bytes_max(arena_bytes: u64) -> u64 {
    arena_bytes / TABLES_PART
}

/// The passes of `rows` transforms, in the order they run, if tables may take `table_bytes_max`
/// bytes.
pub fn chosen(
    transform: &Transform,
    rows: usize,
    table_bytes_max: u64,
    limits: &TransformLimits,
) -> Vec<Pass> {
    let (lg_n, way, room) = (transform.lg_n, transform.way(), Room { table_bytes_max });
    let mut passes = passes(lg_n, rows, way, transform.is_turned(), limits);
    let fits = |kept| may_merge(transform) && room.is_whole(lg_n, kept);
    let wholly = is_natural(transform) && fits(WHOLLY_KEPT);
    let merged = if fits(1) { merge(&passes, way, wholly) } else { None };
    merged.unwrap_or_else(|| {
        room.fit_borders(way, lg_n, &mut passes);
        passes
    })
}

/// The memory for twiddle tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub table_bytes_max: u64,
}

impl Room {
    /// Whether a table with `kept` multiples of each of 2^`lg_block` twiddles may be whole.
    pub fn is_whole(self, lg_block: u32, kept: u32) -> bool {
        (ELEMENT * u64::from(kept)) << lg_block <= self.table_bytes_max / SHARE
    }

    /// Uses two multiples unless a pass wants one and its table fits whole, in one level.
    pub fn fit_borders(self, way: Way, lg_n: u32, passes: &mut [Pass]) {
        let mut lg_block = if way == Way::Dif { lg_n } else { 0 };
        for pass in passes {
            if way == Way::Dit {
                lg_block += pass.lg_r;
            }
            if pass.multiples > 0 && (pass.multiples != 1 || !self.is_whole(lg_block, 1)) {
                pass.multiples = 2;
            }
            if way == Way::Dif {
                lg_block -= pass.lg_r;
            }
        }
    }

    /// Whether passes with fused twiddles suit a transform: all passes are fused, or all except the
    /// rows' pass, and then only its neighbour has an inter-pass twiddle table, which is whole.
    ///
    /// Shape: there is at least one pass.
    pub fn are_merged(self, transform: &Transform, passes: &[Pass]) -> bool {
        let last = passes.len() - 1;
        // Numbers in DIF order.
        let number = |i: usize| if transform.way() == Way::Dif { i } else { last - i };
        let wholly = passes[number(last)].fused;
        let with_kept = if wholly { last } else { last.wrapping_sub(1) };
        let is_right = |(i, pass): (usize, &Pass)| {
            let i = number(i);
            pass.fused == (wholly || i < last) && (pass.multiples > 0) == (i == with_kept)
        };
        let may = !wholly || (is_natural(transform) && transform.lg_n >= LG_WHOLLY_MIN);
        let kept = if wholly { WHOLLY_KEPT } else { passes[number(with_kept)].multiples };
        let fits = may_merge(transform) && may && self.is_whole(transform.lg_n, kept);
        fits && passes.iter().enumerate().all(is_right)
    }
}

/// Whether passes may be fused: in DIT order, fused passes do no bit reversal.
fn may_merge(transform: &Transform) -> bool {
    transform.way() == Way::Dif || !transform.is_turned()
}
