//! Which passes a transform is made of if its tables have so much room. Pure: numbers in, numbers
//! out.

use super::{Pass, Transform, TransformLimits, Way, coset::is_natural, merge, passes};

/// Tables that are kept take one part of so many of a device's arena. Of an H200's 125 GiB that is
/// 20.8: the first borders of 2^28 are whole, and those of both directions stay.
const TABLES_PART: u64 = 6;
/// A table may take this share of all tables' memory; a larger one is made in two levels. Of an
/// H200, that leaves the first border of 2^28, 8 GiB, whole: in two levels it costs a product for
/// each element, 7 % of the transform.
const SHARE: u64 = 2;

/// Bytes of an element.
const ELEMENT: u64 = size_of::<super::Element>() as u64;
/// Tables of passes that are all merged take less than so many multiples for each element would.
const WHOLLY_KEPT: u32 = 4;
/// log2 of the shortest transform whose passes may all be merged: `kernels/ntt/merged_kernels.cuh`.
const LG_WHOLLY_MIN: u32 = 10;

/// What tables of factors may take of a device whose arena has so many bytes, for
/// [`Transforms::load`](super::Transforms::load).
pub const fn table_bytes_max(arena_bytes: u64) -> u64 {
    arena_bytes / TABLES_PART
}

/// The passes of `rows` transforms, in the order they run, if tables may take `table_bytes_max`
/// bytes.
///
/// Shape: `transform.lg_n` is at most [`LG_N_MAX`](super::LG_N_MAX).
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

/// What tables of factors may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub table_bytes_max: u64,
}

impl Room {
    /// Whether a table of that many multiples of each factor may be one of all entries.
    pub fn is_whole(self, lg_block: u32, kept: u32) -> bool {
        (ELEMENT * u64::from(kept)) << lg_block <= self.table_bytes_max / SHARE
    }

    /// Borders whose tables do not fit as a whole are made of two levels, with two multiples.
    pub fn fit_borders(self, way: Way, lg_n: u32, passes: &mut [Pass]) {
        let mut lg_block = if way == Way::Descend { lg_n } else { 0 };
        for pass in passes {
            if way == Way::Ascend {
                lg_block += pass.lg_r;
            }
            if pass.kept > 0 && (pass.kept != 1 || !self.is_whole(lg_block, 1)) {
                pass.kept = 2;
            }
            if way == Way::Descend {
                lg_block -= pass.lg_r;
            }
        }
    }

    /// Whether passes of which some are merged may be a transform's: all are, or all but the rows'
    /// are and only the one beside that has a border, whose table is whole.
    ///
    /// Shape: there is a pass.
    pub fn are_merged(self, transform: &Transform, passes: &[Pass]) -> bool {
        let last = passes.len() - 1;
        // Downward.
        let number = |i: usize| if transform.way() == Way::Descend { i } else { last - i };
        let wholly = passes[number(last)].merged;
        let with_kept = if wholly { last } else { last.wrapping_sub(1) };
        let is_right = |(i, pass): (usize, &Pass)| {
            let i = number(i);
            pass.merged == (wholly || i < last) && (pass.kept > 0) == (i == with_kept)
        };
        let may = !wholly || (is_natural(transform) && transform.lg_n >= LG_WHOLLY_MIN);
        let kept = if wholly { WHOLLY_KEPT } else { passes[number(with_kept)].kept };
        let fits = may_merge(transform) && may && self.is_whole(transform.lg_n, kept);
        fits && passes.iter().enumerate().all(is_right)
    }
}

/// Whether passes may be merged: upward they do not change the order.
fn may_merge(transform: &Transform) -> bool {
    transform.way() == Way::Descend || !transform.is_turned()
}
