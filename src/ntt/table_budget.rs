//! Chooses the passes of a transform, given the memory for twiddle tables. Pure: numbers in,
//! numbers out.

use super::{
    Decimation, NttLimits, NttPass, NttTransform, fuse_twiddles, split_into_passes,
    twiddles::coset_is_in_order,
};

/// The table cache takes 1 / `TABLES_SHARE_DIVISOR` of a device's arena: 20.8 of an H200's 125 GiB,
/// which hold the first inter-pass twiddle tables of 2^28 whole, for both directions.
const TABLES_SHARE_DIVISOR: u64 = 6;
/// A table takes at most 1 / `TABLE_SHARE_DIVISOR` of the cache; a larger one is built in two
/// levels. On an H200 the first inter-pass table of 2^28, 8 GiB, stays whole: in two levels it
/// costs a product per element, 7 % of the transform.
const TABLE_SHARE_DIVISOR: u64 = 2;

/// Bytes of an element.
const ELEMENT: u64 = size_of::<super::DeviceFr>() as u64;
/// Upper bound on the multiples per element in the tables of a transform with all passes fused.
const FULLY_FUSED_MULTIPLES: u32 = 4;
/// log2 of the shortest transform with all passes fused: `kernels/ntt/fused_kernels.cuh`.
const LG_FULLY_FUSED_MIN: u32 = 10;

/// The size in bytes of the twiddle table cache for an arena of this size, for
/// [`Transforms::load`](super::NttDevice::load).
pub const fn table_bytes_max(arena_bytes: u64) -> u64 {
    arena_bytes / TABLES_SHARE_DIVISOR
}

/// The passes of `rows` transforms, in the order they run, if tables may take `table_bytes_max`
/// bytes.
pub fn choose_passes(
    transform: &NttTransform,
    rows: usize,
    table_bytes_max: u64,
    limits: &NttLimits,
) -> Vec<NttPass> {
    let (lg_n, way, room) =
        (transform.lg_n, transform.decimation(), TableBudget { table_bytes_max });
    let mut passes = split_into_passes(lg_n, rows, way, transform.needs_bit_reversal(), limits);
    let fits = |kept| may_fuse(transform) && room.fits_one_level(lg_n, kept);
    let wholly = coset_is_in_order(transform) && fits(FULLY_FUSED_MULTIPLES);
    let merged = if fits(1) { fuse_twiddles(&passes, way, wholly) } else { None };
    merged.unwrap_or_else(|| {
        room.fit_inter_pass_tables(way, lg_n, &mut passes);
        passes
    })
}

/// The memory for twiddle tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableBudget {
    pub table_bytes_max: u64,
}

impl TableBudget {
    /// Whether a table with `kept` multiples of each of 2^`lg_block` twiddles may be whole.
    pub fn fits_one_level(self, lg_block: u32, kept: u32) -> bool {
        (ELEMENT * u64::from(kept)) << lg_block <= self.table_bytes_max / TABLE_SHARE_DIVISOR
    }

    /// Uses two multiples unless a pass wants one and its table fits whole, in one level.
    pub fn fit_inter_pass_tables(self, way: Decimation, lg_n: u32, passes: &mut [NttPass]) {
        let mut lg_block = if way == Decimation::Dif { lg_n } else { 0 };
        for pass in passes {
            if way == Decimation::Dit {
                lg_block += pass.lg_r;
            }
            if pass.multiples > 0 && (pass.multiples != 1 || !self.fits_one_level(lg_block, 1)) {
                pass.multiples = 2;
            }
            if way == Decimation::Dif {
                lg_block -= pass.lg_r;
            }
        }
    }

    /// Whether passes with fused twiddles suit a transform: all passes are fused, or all except the
    /// rows' pass, and then only its neighbour has an inter-pass twiddle table, which is whole.
    ///
    /// Shape: there is at least one pass.
    pub fn accepts_fused(self, transform: &NttTransform, passes: &[NttPass]) -> bool {
        let last = passes.len() - 1;
        // Numbers in DIF order.
        let number =
            |i: usize| if transform.decimation() == Decimation::Dif { i } else { last - i };
        let wholly = passes[number(last)].fused;
        let with_kept = if wholly { last } else { last.wrapping_sub(1) };
        let is_right = |(i, pass): (usize, &NttPass)| {
            let i = number(i);
            pass.fused == (wholly || i < last) && (pass.multiples > 0) == (i == with_kept)
        };
        let may = !wholly || (coset_is_in_order(transform) && transform.lg_n >= LG_FULLY_FUSED_MIN);
        let kept = if wholly { FULLY_FUSED_MULTIPLES } else { passes[number(with_kept)].multiples };
        let fits = may_fuse(transform) && may && self.fits_one_level(transform.lg_n, kept);
        fits && passes.iter().enumerate().all(is_right)
    }
}

/// Whether passes may be fused: in DIT order, fused passes do no bit reversal.
fn may_fuse(transform: &NttTransform) -> bool {
    transform.decimation() == Decimation::Dif || !transform.needs_bit_reversal()
}
