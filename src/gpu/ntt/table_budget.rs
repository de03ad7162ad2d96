//! Chooses the passes of a transform, given the memory for twiddle tables. Pure: numbers in,
//! numbers out.

use super::{
    elements::ELEMENT_BYTES,
    passes::{NttLimits, NttPass, fuse_twiddles, in_dif_order, lg_blocks, split_into_passes},
    twiddles::coset_is_in_order,
};
use crate::curve::{Decimation, NttPlan};

/// The table cache takes 1 / `TABLES_SHARE_DIVISOR` of a device's arena: on an H200, that holds
/// the first inter-pass twiddle tables of 2^28 whole, in both directions
/// (`benches/experiments/ntt.md`).
const TABLES_SHARE_DIVISOR: u64 = 6;
/// A table takes at most 1 / `TABLE_SHARE_DIVISOR` of the cache; a larger one is built in two
/// levels, which costs a product per element: 7 % of a transform of 2^28, whose first inter-pass
/// table stays whole on an H200 (`benches/experiments/ntt.md`).
const TABLE_SHARE_DIVISOR: u64 = 2;

/// Upper bound on the multiples per element in the tables of a transform with all passes fused.
const FULLY_FUSED_MULTIPLES: u32 = 4;
/// log2 of the shortest transform with all passes fused: `kernels/ntt/fused_kernels.cuh`.
const LG_FULLY_FUSED_MIN: u32 = 10;

/// The size in bytes of the twiddle table cache for an arena of this size, for
/// [`NttDevice::load`](super::NttDevice::load).
pub const fn table_bytes_max(arena_bytes: u64) -> u64 {
    arena_bytes / TABLES_SHARE_DIVISOR
}

/// The passes of `rows` transforms, in the order they run, if tables may take `table_bytes_max`
/// bytes.
pub fn choose_passes(
    transform: &NttPlan,
    rows: usize,
    table_bytes_max: u64,
    limits: &NttLimits,
) -> Vec<NttPass> {
    let (lg_n, decimation) = (transform.lg_n, transform.decimation());
    let budget = TableBudget { table_bytes_max };
    let fits = |multiples| may_fuse(transform) && budget.fits_one_level(lg_n, multiples);
    let fuse_rows = coset_is_in_order(transform) && fits(FULLY_FUSED_MULTIPLES);
    let mut passes = split_into_passes(transform, rows, limits);
    let fused = if fits(1) { fuse_twiddles(&passes, decimation, fuse_rows) } else { None };
    fused.unwrap_or_else(|| {
        budget.fit_inter_pass_tables(decimation, &mut passes);
        passes
    })
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TableBudget {
    pub table_bytes_max: u64,
}

impl TableBudget {
    /// Whether a table with `multiples` of each of 2^`lg_block` twiddles may be whole.
    pub fn fits_one_level(self, lg_block: u32, multiples: u32) -> bool {
        let bytes = (ELEMENT_BYTES * u64::from(multiples)) << lg_block;
        bytes <= self.table_bytes_max / TABLE_SHARE_DIVISOR
    }

    /// Uses two multiples unless a pass has one and its table fits whole, in one level.
    pub fn fit_inter_pass_tables(self, decimation: Decimation, passes: &mut [NttPass]) {
        let lg_blocks = lg_blocks(passes, decimation);
        for (pass, lg_block) in passes.iter_mut().zip(lg_blocks) {
            if pass.multiples > 0 && (pass.multiples != 1 || !self.fits_one_level(lg_block, 1)) {
                pass.multiples = 2;
            }
        }
    }

    /// Whether passes with fused twiddles suit a transform: all passes are fused, or all except the
    /// rows' pass, and then only its neighbour has an inter-pass twiddle table, which is whole.
    ///
    /// Shape: there is at least one pass.
    pub fn accepts_fused(self, transform: &NttPlan, passes: &[NttPass]) -> bool {
        let passes = in_dif_order(passes, transform.decimation());
        let last = passes.len() - 1;
        let fuses_rows = passes[last].fused;
        let with_multiples = if fuses_rows { last } else { last.wrapping_sub(1) };
        let is_right = |(i, pass): (usize, &NttPass)| {
            pass.fused == (fuses_rows || i < last) && (pass.multiples > 0) == (i == with_multiples)
        };
        if !passes.iter().enumerate().all(is_right) || !may_fuse(transform) {
            return false;
        }
        if fuses_rows {
            let is_allowed = coset_is_in_order(transform) && transform.lg_n >= LG_FULLY_FUSED_MIN;
            return is_allowed && self.fits_one_level(transform.lg_n, FULLY_FUSED_MULTIPLES);
        }
        self.fits_one_level(transform.lg_n, passes[with_multiples].multiples)
    }
}

/// Whether passes may be fused: in DIT order, fused passes do no bit reversal.
fn may_fuse(transform: &NttPlan) -> bool {
    transform.decimation() == Decimation::Dif || !transform.needs_bit_reversal()
}
