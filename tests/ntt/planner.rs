//! Plans of passes, up to sizes that are too large to run in tests.

use std::fmt;

use ark_bls12_381::Fr;
use capstan::{
    curve::{Decimation, NttPlan},
    device::{BlockShape, DeviceLimits},
    ntt::{
        LG_N_MAX, NttLimits, NttPass, choose_passes, fuse_twiddles, split_into_passes,
        table_bytes_max,
    },
};

use crate::{limits::PRESETS, rig::every_transform};

/// The pairs of lg_e and multiples for which kernels exist.
const KERNELS: [(u32, u32); 7] = [(1, 0), (2, 0), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];

fn h200() -> NttLimits {
    NttLimits::of(&DeviceLimits::H200)
}

/// What is planned, and the passes of one device.
struct Case {
    transform: NttPlan,
    rows: usize,
    limits: NttLimits,
    passes: Vec<NttPass>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transform, rows, limits, passes } = self;
        write!(f, "{transform:?}, {rows} rows, {limits:?}: {passes:?}")
    }
}

impl Case {
    fn is_dif(&self) -> bool {
        self.transform.decimation() == Decimation::Dif
    }

    fn fused(&self, fuse_rows: bool) -> Option<Vec<NttPass>> {
        fuse_twiddles(&self.passes, self.transform.decimation(), fuse_rows)
    }

    /// Passes in DIF order.
    fn in_dif_order(&self, passes: &[NttPass]) -> Vec<NttPass> {
        let mut passes = passes.to_vec();
        if !self.is_dif() {
            passes.reverse();
        }
        passes
    }
}

/// The limits of all devices, each once.
fn devices() -> Vec<NttLimits> {
    let mut all = Vec::new();
    for (_, limits) in PRESETS {
        let limits = NttLimits::of(&limits);
        if !all.contains(&limits) {
            all.push(limits);
        }
    }
    all
}

/// A forward transform with these orders.
fn forward(lg_n: u32, input_reversed: bool, output_reversed: bool) -> NttPlan {
    NttPlan { lg_n, inverse: false, coset: None, input_reversed, output_reversed }
}

fn every_case() -> impl Iterator<Item = Case> {
    const ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];
    (0..=LG_N_MAX).flat_map(|lg_n| {
        [0, 1, 2, 5, 64, 1000, 1 << 20].into_iter().flat_map(move |rows| {
            ORDERS.into_iter().flat_map(move |(input_reversed, output_reversed)| {
                let transform = forward(lg_n, input_reversed, output_reversed);
                devices().into_iter().map(move |limits| {
                    let passes = split_into_passes(&transform, rows, &limits);
                    Case { transform, rows, limits, passes }
                })
            })
        })
    })
}

/// The shared memory of a multiprocessor holds two tiles.
#[test]
fn tiles_are_as_large_as_every_device_allows() {
    for (device, limits) in PRESETS {
        let NttLimits { lg_tile_max, .. } = NttLimits::of(&limits);
        let lg_expected = if limits.shared_bytes > 128 << 10 { 11 } else { 10 };
        assert_eq!(lg_tile_max, lg_expected, "{device}");
        let block = BlockShape { threads: 512, shared_bytes: 32 << lg_tile_max };
        assert!(limits.fits(block), "{device}");
    }
}

#[test]
fn passes_fit_their_transform_and_their_kernels() {
    for case in every_case() {
        let lg_n = case.transform.lg_n;
        assert_eq!(case.passes.iter().map(|pass| pass.lg_r).sum::<u32>(), lg_n, "{case:?}");
        let last = case.passes.len().saturating_sub(1);
        let mut lg_block = lg_n;
        for (i, pass) in case.in_dif_order(&case.passes).into_iter().enumerate() {
            let NttPass { lg_r, lg_c, lg_e, multiples, .. } = pass;
            assert!(KERNELS.contains(&(lg_e, multiples)), "{case:?}");
            assert_eq!(multiples == 0, i == last, "{case:?}");
            assert!(lg_r >= lg_e && lg_r % lg_e == 0 && lg_r <= 10, "{case:?}");
            // The shared memory of a block, and at most 512 threads.
            let lg_tile = pass.lg_tile();
            assert!(lg_tile <= case.limits.lg_tile_max && lg_tile - lg_e <= 9, "{case:?}");
            if last > 0 {
                assert!(lg_c <= if i == last { lg_n } else { lg_block } - lg_r, "{case:?}");
            }
            assert!(lg_r + lg_c >= 6, "{case:?}");
            // The grid's x dimension is below 2^31.
            assert!(lg_n.saturating_sub(lg_r + lg_c) < 31, "{case:?}");
            lg_block -= lg_r;
        }
    }
}

#[test]
fn reordered_results_are_stored_in_runs() {
    for case in every_case() {
        if case.is_dif() && case.transform.needs_bit_reversal() && case.passes.len() > 1 {
            let last = case.passes.last().unwrap();
            assert!(last.lg_c > 0 || last.lg_e == 1 || last.lg_r == 10, "{case:?}");
        }
    }
}

fn shape(pass: &NttPass) -> (u32, u32, u32) {
    (pass.lg_r, pass.lg_c, pass.lg_e)
}

#[test]
fn fused_column_passes_have_one_inter_pass_table() {
    let mut found = Vec::new();
    for case in every_case() {
        let Some(fused) = case.fused(false) else { continue };
        let (passes, fused) = (case.in_dif_order(&case.passes), case.in_dif_order(&fused));
        assert!(passes.len() > 2, "{case:?}");
        assert!(passes.iter().map(shape).eq(fused.iter().map(shape)), "{case:?}: {fused:?}");
        let (last, columns) = fused.split_last().unwrap();
        assert_eq!(Some(last), passes.last(), "{case:?}");
        assert!(columns.iter().all(|pass| pass.fused), "{case:?}: {fused:?}");
        let multiples: Vec<_> = columns.iter().map(|pass| pass.multiples).collect();
        assert_eq!(multiples.iter().sum::<u32>(), 1, "{case:?}: {fused:?}");
        assert_eq!(multiples.last(), Some(&1), "{case:?}: {fused:?}");
        found.push(case.transform.lg_n);
    }
    found.dedup();
    assert_eq!(found, [18, 20, 22, 24, 26, 28, 30]);
}

#[test]
fn fully_fused_passes_have_no_inter_pass_table() {
    let mut found = Vec::new();
    for case in every_case() {
        let Some(fused) = case.fused(true) else { continue };
        let lg_n = case.transform.lg_n;
        assert!(case.passes.iter().map(shape).eq(fused.iter().map(shape)), "{case:?}: {fused:?}");
        if lg_n > 16 {
            assert_eq!(Some(fused), case.fused(false), "{case:?}");
            continue;
        }
        let last = if case.is_dif() { fused.len() - 1 } else { 0 };
        for (i, pass) in fused.iter().enumerate() {
            assert!(pass.fused && (pass.multiples > 0) == (i == last), "{case:?}: {fused:?}");
        }
        assert!(fused.len() > 1 || lg_n == 10, "{case:?}: {fused:?}");
        found.push(lg_n);
    }
    found.dedup();
    assert_eq!(found, [10, 14, 16]);
}

/// The planner chooses the plans that measured fastest on an H200.
#[test]
fn fastest_measured_plans_are_chosen() {
    let radices = |lg_n, rows| -> Vec<(u32, u32)> {
        let passes = split_into_passes(&forward(lg_n, false, true), rows, &h200());
        passes.iter().map(|pass| (pass.lg_r, pass.lg_e)).collect()
    };
    assert_eq!(radices(10, 1), [(5, 1), (5, 1)]);
    assert_eq!(radices(10, 1024), [(10, 2)]);
    assert_eq!(radices(16, 1), [(8, 1), (8, 1)]);
    assert_eq!(radices(16, 256), [(8, 2), (8, 2)]);
    assert_eq!(radices(18, 1), [(6, 2), (6, 2), (6, 2)]);
    assert_eq!(radices(20, 1), [(6, 2), (6, 2), (8, 2)]);
    assert_eq!(radices(22, 1), [(8, 2), (6, 2), (8, 2)]);
    assert_eq!(radices(24, 1), [(6, 2), (6, 2), (6, 2), (6, 2)]);
    assert_eq!(radices(26, 1), [(6, 2), (6, 2), (6, 2), (8, 2)]);
    assert_eq!(radices(28, 1), [(6, 2), (6, 2), (8, 2), (8, 2)]);
    assert_eq!(radices(30, 1), [(6, 2), (8, 2), (8, 2), (8, 2)]);
}

/// With the engine's limit on tables on an H200, whose arena has 125 GiB (90 % of the free memory).
#[test]
fn inter_pass_tables_of_2_28_are_whole_on_an_h200() {
    let table_bytes = table_bytes_max(125 << 30);
    for lg_n in [18, 20, 22, 24, 26, 28] {
        for transform in every_transform(lg_n) {
            let passes = choose_passes(&transform, 1, table_bytes, &h200());
            let is_fused =
                transform.decimation() == Decimation::Dif || !transform.needs_bit_reversal();
            let fused = passes.iter().filter(|pass| pass.fused).count();
            let expected = if is_fused { passes.len() - 1 } else { 0 };
            assert_eq!(fused, expected, "{transform:?}: {passes:?}");
            // A whole table of inter-pass twiddles has one multiple, one in two levels has two.
            let ones = passes.iter().filter(|pass| pass.multiples == 1).count();
            assert_eq!(ones, usize::from(is_fused || lg_n >= 20), "{transform:?}: {passes:?}");
        }
    }
    // The tables of both directions fit in the cache, with 2 GiB to spare.
    assert!(2 * (32 << 28) < table_bytes - (2 << 30));
    // On a device with half the memory, the tables have two levels.
    let on_coset = NttPlan { coset: Some(Fr::from(7_u64)), ..forward(28, false, true) };
    let passes = choose_passes(&on_coset, 1, table_bytes_max(62 << 30), &h200());
    assert!(passes.iter().all(|pass| !pass.fused && pass.multiples != 1), "{passes:?}");
}

#[test]
fn long_tables_beyond_the_cache_have_one_multiple() {
    assert_eq!(h200(), NttLimits { lg_tile_max: 11, lg_single_multiple: 20 });
    let cached = NttLimits::of(&DeviceLimits { l2_bytes: 96 << 20, ..DeviceLimits::H200 });
    assert_eq!(cached.lg_single_multiple, 21);
}

#[test]
fn tables_of_chosen_passes_fit_their_limit() {
    for limits in devices() {
        for lg_n in 11..=LG_N_MAX {
            every_transform(lg_n).for_each(|transform| check_tables(&transform, &limits));
        }
    }
}

fn check_tables(transform: &NttPlan, limits: &NttLimits) {
    // Half of 64 << lg_n bytes, the share of one table, holds 2^lg_n elements.
    let lg_n = transform.lg_n;
    let whole = choose_passes(transform, 1 << 20, 64 << lg_n, limits);
    let less = choose_passes(transform, 1 << 20, (64 << lg_n) - 1, limits);
    let radices = |passes: &[NttPass]| passes.iter().map(|p| p.lg_r).collect::<Vec<_>>();
    assert_eq!(radices(&whole), radices(&less));
    assert!(less.iter().all(|pass| !pass.fused), "{transform:?}: {less:?}");
    let mut lg_block = 0;
    let is_dif = transform.decimation() == Decimation::Dif;
    let dit_order: Vec<_> =
        if is_dif { less.iter().rev().collect() } else { less.iter().collect() };
    for pass in dit_order {
        lg_block += pass.lg_r;
        assert!(pass.multiples != 1 || lg_block < lg_n, "{transform:?}: {less:?}");
    }
}
