//! Plans of passes, up to sizes that are too large to run in tests.

use ark_bls12_381::Fr;
use capstan::{
    device::{BlockShape, DeviceLimits},
    ntt::{
        Decimation, LG_N_MAX, NttLimits, NttPass, NttTransform, choose_passes, fuse_twiddles,
        split_into_passes, table_bytes_max,
    },
};

use crate::{limits::PRESETS, rig::every_transform};

/// The pairs (lg_e, kept) for which kernels exist.
const KERNELS: [(u32, u32); 7] = [(1, 0), (2, 0), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];

fn h200() -> NttLimits {
    NttLimits::of(&DeviceLimits::H200)
}

/// What is planned, and the passes of one device.
type Case = (u32, usize, Decimation, bool, NttLimits, Vec<NttPass>);

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

fn every() -> impl Iterator<Item = Case> {
    let ways = [Decimation::Dif, Decimation::Dit];
    (0..=LG_N_MAX).flat_map(move |lg_n| {
        [0, 1, 2, 5, 64, 1000, 1 << 20].into_iter().flat_map(move |rows| {
            ways.into_iter().flat_map(move |way| {
                [false, true].into_iter().flat_map(move |turned| {
                    devices().into_iter().map(move |limits| {
                        let passes = split_into_passes(lg_n, rows, way, turned, &limits);
                        (lg_n, rows, way, turned, limits, passes)
                    })
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
    for (lg_n, rows, way, turned, limits, passes) in every() {
        let case = format!("2^{lg_n}, {rows} rows, {way:?}, {turned}, {limits:?}: {passes:?}");
        assert_eq!(passes.iter().map(|pass| pass.lg_r).sum::<u32>(), lg_n, "{case}");
        let last = passes.len().saturating_sub(1);
        let mut downward = passes.clone();
        if way == Decimation::Dit {
            downward.reverse();
        }
        let mut lg_block = lg_n;
        for (i, pass) in downward.iter().enumerate() {
            let NttPass { lg_r, lg_c, lg_e, multiples: kept, .. } = *pass;
            assert!(KERNELS.contains(&(lg_e, kept)), "{case}");
            assert_eq!(kept == 0, i == last, "{case}");
            assert!(lg_r >= lg_e && lg_r % lg_e == 0 && lg_r <= 10, "{case}");
            // The shared memory of a block, and at most 512 threads.
            assert!(pass.lg_tile() <= limits.lg_tile_max && pass.lg_tile() - lg_e <= 9, "{case}");
            if last > 0 {
                assert!(lg_c <= if i == last { lg_n } else { lg_block } - lg_r, "{case}");
            }
            assert!(lg_r + lg_c >= 6, "{case}");
            // The grid's x dimension is below 2^31.
            assert!(lg_n.saturating_sub(lg_r + lg_c) < 31, "{case}");
            lg_block -= lg_r;
        }
    }
}

#[test]
fn reordered_results_are_stored_in_runs() {
    for (lg_n, _, way, turned, _, passes) in every() {
        if way == Decimation::Dif && turned && passes.len() > 1 {
            let last = passes.last().unwrap();
            assert!(last.lg_c > 0 || last.lg_e == 1 || last.lg_r == 10, "2^{lg_n}: {passes:?}");
        }
    }
}

#[test]
fn fused_column_passes_have_one_inter_pass_table() {
    let mut found = Vec::new();
    for (lg_n, rows, way, turned, _, passes) in every() {
        let Some(mut merged) = fuse_twiddles(&passes, way, false) else { continue };
        let mut passes = passes;
        if way == Decimation::Dit {
            passes.reverse();
            merged.reverse();
        }
        let case = format!("2^{lg_n}, {rows} rows, {way:?}, {turned}: {merged:?}");
        assert!(passes.len() > 2, "{case}");
        let shape = |pass: &NttPass| (pass.lg_r, pass.lg_c, pass.lg_e);
        assert!(passes.iter().map(shape).eq(merged.iter().map(shape)), "{case}");
        let (last, columns) = merged.split_last().unwrap();
        assert_eq!(Some(last), passes.last(), "{case}");
        assert!(columns.iter().all(|pass| pass.fused), "{case}");
        let borders: Vec<_> = columns.iter().map(|pass| pass.multiples).collect();
        assert_eq!(borders.iter().sum::<u32>(), 1, "{case}");
        assert_eq!(borders.last(), Some(&1), "{case}");
        found.push(lg_n);
    }
    found.dedup();
    assert_eq!(found, [18, 20, 22, 24, 26, 28, 30]);
}

#[test]
fn fully_fused_passes_have_no_inter_pass_table() {
    let mut found = Vec::new();
    for (lg_n, rows, way, turned, _, passes) in every() {
        let Some(merged) = fuse_twiddles(&passes, way, true) else { continue };
        let case = format!("2^{lg_n}, {rows} rows, {way:?}, {turned}: {merged:?}");
        let shape = |pass: &NttPass| (pass.lg_r, pass.lg_c, pass.lg_e);
        assert!(passes.iter().map(shape).eq(merged.iter().map(shape)), "{case}");
        if lg_n > 16 {
            assert_eq!(Some(merged), fuse_twiddles(&passes, way, false), "{case}");
            continue;
        }
        let last = if way == Decimation::Dif { merged.len() - 1 } else { 0 };
        for (i, pass) in merged.iter().enumerate() {
            assert!(pass.fused && (pass.multiples > 0) == (i == last), "{case}");
        }
        assert!(merged.len() > 1 || lg_n == 10, "{case}");
        found.push(lg_n);
    }
    found.dedup();
    assert_eq!(found, [10, 14, 16]);
}

/// The planner chooses the plans that measured fastest on an H200.
#[test]
fn fastest_measured_plans_are_chosen() {
    let radices = |lg_n, rows| -> Vec<(u32, u32)> {
        let passes = split_into_passes(lg_n, rows, Decimation::Dif, false, &h200());
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
    let room = table_bytes_max(125 << 30);
    let is_merged = |passes: &[NttPass]| passes.iter().filter(|pass| pass.fused).count();
    for lg_n in [18, 20, 22, 24, 26, 28] {
        for transform in every_transform(lg_n) {
            let passes = choose_passes(&transform, 1, room, &h200());
            let merges =
                transform.decimation() == Decimation::Dif || !transform.needs_bit_reversal();
            let count = if merges { passes.len() - 1 } else { 0 };
            assert_eq!(is_merged(&passes), count, "{transform:?}: {passes:?}");
            // A whole table of inter-pass twiddles has one multiple, one in two levels has two.
            let ones = passes.iter().filter(|pass| pass.multiples == 1).count();
            assert_eq!(ones, usize::from(merges || lg_n >= 20), "{transform:?}: {passes:?}");
        }
    }
    // The tables of both directions fit in the cache, with 2 GiB to spare.
    assert!(2 * (32 << 28) < room - (2 << 30));
    // On a device with half the memory, the tables have two levels.
    let forward = NttTransform {
        lg_n: 28,
        inverse: false,
        coset: Some(Fr::from(7_u64)),
        input_reversed: false,
        output_reversed: true,
    };
    let passes = choose_passes(&forward, 1, table_bytes_max(62 << 30), &h200());
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

fn check_tables(transform: &NttTransform, limits: &NttLimits) {
    // Half of 64 << lg_n bytes, the share of one table, holds 2^lg_n elements.
    let lg_n = transform.lg_n;
    let whole = choose_passes(transform, 1 << 20, 64 << lg_n, limits);
    let less = choose_passes(transform, 1 << 20, (64 << lg_n) - 1, limits);
    let radices = |passes: &[NttPass]| passes.iter().map(|p| p.lg_r).collect::<Vec<_>>();
    assert_eq!(radices(&whole), radices(&less));
    assert!(less.iter().all(|pass| !pass.fused), "{transform:?}: {less:?}");
    let mut lg_block = 0;
    let descends = transform.decimation() == Decimation::Dif;
    let upward: Vec<_> = if descends { less.iter().rev().collect() } else { less.iter().collect() };
    for pass in upward {
        lg_block += pass.lg_r;
        assert!(pass.multiples != 1 || lg_block < lg_n, "{transform:?}: {less:?}");
    }
}
