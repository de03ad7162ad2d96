//! Splits an MSM into tiles: window width, and the points that each thread sums. Pure.

use crate::curve::Group;

use super::blst::WINDOW_BITS_MAX;

/// A range of points in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MsmTile {
    pub(super) first: usize,
    pub(super) len: usize,
    /// Lowest bit of the window.
    pub(super) bit: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CpuMsmPlan {
    pub(super) window_bits: usize,
    /// Cover every point once in every window, the highest window first.
    pub(super) tiles: Vec<MsmTile>,
}

/// Cost of summing a bucket, in additions of a point to a bucket: 2.5 instead of 2.9 saves 8 % of
/// an MSM of 2^18 (`benches/experiments/cpu-engine.md`).
const BUCKET_COST: f64 = 2.5;

/// Maximum points in a tile. A tile delays cancellation by its duration, below 0.1 s: blst cannot
/// be interrupted. Four times as many make an MSM of 2^20 about 15 % faster
/// (`benches/experiments/cpu-engine.md`).
pub(super) const fn tile_points_max(group: Group) -> usize {
    match group {
        Group::G1 => 1 << 17,
        Group::G2 => 1 << 16,
    }
}

/// Splits an MSM of `n` scalars below 2^`bits` for `threads` threads.
///
/// Shape: n at least 2, bits at least 1.
pub(super) fn plan(group: Group, n: usize, bits: usize, threads: usize) -> CpuMsmPlan {
    let mut best = (f64::INFINITY, 1, RowSplit { whole: 0, parts: 1, parts_whole: 1 });
    for window_bits in 1..=window_bits_max(group, n, threads).min(bits + 1) {
        let rows = window_count(bits, window_bits);
        for split in candidate_splits(group, n, rows, threads) {
            let cost = makespan(n, bits, window_bits, split, threads);
            if cost < best.0 {
                best = (cost, window_bits, split);
            }
        }
    }
    let (_, window_bits, split) = best;
    CpuMsmPlan { window_bits, tiles: tiles(n, window_count(bits, window_bits), window_bits, split) }
}

/// The modelled duration of an MSM of `n` full scalars, in additions of a point to a bucket. Takes
/// all threads as busy to the end, so that no split is searched.
pub(super) fn modelled_additions(group: Group, n: usize, threads: usize) -> f64 {
    modelled_window(group, n, threads).additions
}

/// Buckets that `threads` threads hold together at most in an MSM of `n` full scalars.
pub(super) fn buckets_in_flight(group: Group, n: usize, threads: usize) -> usize {
    threads << (window_bits_max(group, n.max(2), threads) - 1)
}

/// The widest window that a plan may have, found without a search of splits.
fn window_bits_max(group: Group, n: usize, threads: usize) -> usize {
    // Rows of few points are split among threads, which is better with wider windows.
    let wider = if n < 1 << 14 { 2 } else { 1 };
    (modelled_window(group, n, threads).bits + wider).min(WINDOW_BITS_MAX)
}

/// The window that is best without a search of splits.
struct ModelledWindow {
    bits: usize,
    additions: f64,
}

fn modelled_window(group: Group, n: usize, threads: usize) -> ModelledWindow {
    let (n, threads, parts) = (n as f64, threads as f64, n.div_ceil(tile_points_max(group)) as f64);
    let window = |bits| {
        let rows = window_count(255, bits) as f64;
        let bucket_sets = (rows * parts / threads).max(1.0);
        let buckets = bucket_sets * (1u64 << (bits - 1)) as f64;
        ModelledWindow { bits, additions: rows * n / threads + BUCKET_COST * buckets }
    };
    let better = |best: ModelledWindow, other: ModelledWindow| match other.additions {
        additions if additions < best.additions => other,
        _ => best,
    };
    (2..=WINDOW_BITS_MAX).map(window).fold(window(1), better)
}

/// Splits rows (windows) along the points.
#[derive(Debug, Clone, Copy)]
struct RowSplit {
    /// Rows that are split only as far as `tile_points_max` requires.
    whole: usize,
    /// Parts of each such row.
    parts_whole: usize,
    /// Parts of each other row.
    parts: usize,
}

/// Number of windows: one more than the bits need if they fill the last window, since signed digits
/// carry.
fn window_count(bits: usize, window_bits: usize) -> usize {
    bits / window_bits + 1
}

/// Candidate splits: rounds of one row per thread, and a finer split of the remaining rows, so that
/// no thread is idle at the end.
fn candidate_splits(
    group: Group,
    n: usize,
    rows: usize,
    threads: usize,
) -> impl Iterator<Item = RowSplit> {
    let parts_min = n.div_ceil(tile_points_max(group));
    // A part has at least two points.
    let parts_max = (2 * threads).max(parts_min).min(n / 2).max(1);
    let rounds = rows / threads * threads;
    [0, rounds].into_iter().flat_map(move |whole| {
        (parts_min.min(parts_max)..=parts_max).map(move |parts| RowSplit {
            whole,
            parts_whole: parts_min.min(n / 2),
            parts,
        })
    })
}

/// Duration on `threads` threads, in additions of a point to a bucket.
fn makespan(n: usize, bits: usize, window_bits: usize, split: RowSplit, threads: usize) -> f64 {
    let rows = window_count(bits, window_bits);
    let buckets = BUCKET_COST * (1u64 << (window_bits - 1)) as f64;
    let rounds = |tiles: usize| tiles.div_ceil(threads) as f64;
    // Digits of the top row are short: many are zero, and they have few buckets.
    let top_bits = bits % window_bits;
    let top = n as f64 * 0.5f64.powi(top_bits as i32 + 1) / threads as f64;
    let cost = |tiles: usize, parts: usize| rounds(tiles) * (n as f64 / parts as f64 + buckets);
    cost(split.whole * split.parts_whole, split.parts_whole)
        + cost((rows - split.whole) * split.parts, split.parts)
        - top
}

fn tiles(n: usize, rows: usize, window_bits: usize, split: RowSplit) -> Vec<MsmTile> {
    let mut tiles = Vec::with_capacity(rows * split.parts.max(split.parts_whole));
    for row in (0..rows).rev() {
        // The lowest rows are split finer: they are summed last, when threads run out of work.
        let parts = if row >= rows - split.whole { split.parts_whole } else { split.parts };
        let bound = |part: usize| (n as u128 * part as u128 / parts as u128) as usize;
        tiles.extend((0..parts).map(|part| MsmTile {
            first: bound(part),
            len: bound(part + 1) - bound(part),
            bit: row * window_bits,
        }));
    }
    tiles
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn every_point_is_in_every_window_once() {
        for group in [Group::G1, Group::G2] {
            for n in (2..70).chain([127, 128, 1000, 4097, 1 << 20, (1 << 22) + 1]) {
                for bits in [1, 2, 7, 8, 16, 64, 127, 128, 254, 255, 256] {
                    for threads in [1, 2, 3, 16, 64] {
                        check(group, n, bits, threads);
                    }
                }
            }
        }
    }

    #[test]
    fn plans_do_not_need_wider_windows() {
        for n in (2..300).chain((4..13).map(|i| 3 << i)).chain((8..24).map(|lg_n| 1 << lg_n)) {
            for threads in [1, 2, 3, 16, 64, 128] {
                let narrow = 1..window_bits_max(Group::G1, n, threads) + 1;
                let wide = narrow.end..WINDOW_BITS_MAX + 1;
                let (narrow, wide) = (least_cost(n, threads, narrow), least_cost(n, threads, wide));
                assert!(narrow <= wide, "{n} {threads}: {narrow} > {wide}");
            }
        }
    }

    fn least_cost(n: usize, threads: usize, windows: Range<usize>) -> f64 {
        let costs = windows.flat_map(|bits| {
            let splits = candidate_splits(Group::G1, n, window_count(255, bits), threads);
            splits.map(move |split| makespan(n, 255, bits, split, threads))
        });
        costs.fold(f64::INFINITY, f64::min)
    }

    fn check(group: Group, n: usize, bits: usize, threads: usize) {
        let plan = plan(group, n, bits, threads);
        let mut bit = bits / plan.window_bits * plan.window_bits;
        let mut next = 0;
        assert!(bit + plan.window_bits > bits, "the top window has room for the carry");
        for tile in &plan.tiles {
            assert_eq!((tile.bit, tile.first), (bit, next));
            assert!(tile.len >= 2 && tile.len <= tile_points_max(group) + 1);
            next += tile.len;
            if next == n && bit > 0 {
                (bit, next) = (bit - plan.window_bits, 0);
            }
        }
        assert_eq!((bit, next), (0, n));
    }

    #[test]
    fn windows_grow_with_the_points_and_every_thread_has_a_tile() {
        let window = |lg_n: u32| plan(Group::G1, 1 << lg_n, 255, 2).window_bits;
        assert!(window(10) < window(13) && window(13) < window(16));
        assert!(plan(Group::G1, 1 << 20, 255, 64).tiles.len() >= 64);
    }
}
