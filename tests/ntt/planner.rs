//! Which passes are chosen, for sizes that no test can run.

use ark_bls12_381::Fr;
use capstan::{
    device::{Block, DeviceLimits},
    ntt::{
        LG_N_MAX, Pass, Transform, TransformLimits, Way, chosen, merge, passes, table_bytes_max,
    },
};

use crate::{limits::PRESETS, rig::every_transform};

/// Pairs of lg_e and kept multiples that there are kernels of.
const KERNELS: [(u32, u32); 7] = [(1, 0), (2, 0), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];

fn h200() -> TransformLimits {
    TransformLimits::of(&DeviceLimits::H200)
}

/// What is planned, and the passes of one device.
type Case = (u32, usize, Way, bool, TransformLimits, Vec<Pass>);

/// The limits of all devices, each once.
fn devices() -> Vec<TransformLimits> {
    let mut all = Vec::new();
    for (_, limits) in PRESETS {
        let limits = TransformLimits::of(&limits);
        if !all.contains(&limits) {
            all.push(limits);
        }
    }
    all
}

fn every() -> impl Iterator<Item = Case> {
    let ways = [Way::Descend, Way::Ascend];
    (0..=LG_N_MAX).flat_map(move |lg_n| {
        [0, 1, 2, 5, 64, 1000, 1 << 20].into_iter().flat_map(move |rows| {
            ways.into_iter().flat_map(move |way| {
                [false, true].into_iter().flat_map(move |turned| {
                    devices().into_iter().map(move |limits| {
                        let passes = passes(lg_n, rows, way, turned, &limits);
                        (lg_n, rows, way, turned, limits, passes)
                    })
                })
            })
        })
    })
}

/// Two tiles fit a multiprocessor.
#[test]
fn tiles_are_as_large_as_every_device_allows() {
    for (device, limits) in PRESETS {
        let TransformLimits { lg_tile_max, .. } = TransformLimits::of(&limits);
        let lg_expected = if limits.shared_bytes > 128 << 10 { 11 } else { 10 };
        assert_eq!(lg_tile_max, lg_expected, "{device}");
        let block = Block { threads: 512, shared_bytes: 32 << lg_tile_max };
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
        if way == Way::Ascend {
            downward.reverse();
        }
        let mut lg_block = lg_n;
        for (i, pass) in downward.iter().enumerate() {
            let Pass { lg_r, lg_c, lg_e, kept, .. } = *pass;
            assert!(KERNELS.contains(&(lg_e, kept)), "{case}");
            assert_eq!(kept == 0, i == last, "{case}");
            assert!(lg_r >= lg_e && lg_r % lg_e == 0 && lg_r <= 10, "{case}");
            // Shared memory of a block, and its threads.
            assert!(pass.lg_tile() <= limits.lg_tile_max && pass.lg_tile() - lg_e <= 9, "{case}");
            if last > 0 {
                assert!(lg_c <= if i == last { lg_n } else { lg_block } - lg_r, "{case}");
            }
            assert!(lg_r + lg_c >= 6, "{case}");
            // The most blocks of a launch along x.
            assert!(lg_n.saturating_sub(lg_r + lg_c) < 31, "{case}");
            lg_block -= lg_r;
        }
    }
}

#[test]
fn results_that_change_order_are_stored_together() {
    for (lg_n, _, way, turned, _, passes) in every() {
        if way == Way::Descend && turned && passes.len() > 1 {
            let last = passes.last().unwrap();
            assert!(last.lg_c > 0 || last.lg_e == 1 || last.lg_r == 10, "2^{lg_n}: {passes:?}");
        }
    }
}

#[test]
fn merged_passes_are_the_same_with_one_border() {
    let mut found = Vec::new();
    for (lg_n, rows, way, turned, _, passes) in every() {
        let Some(mut merged) = merge(&passes, way, false) else { continue };
        let mut passes = passes;
        if way == Way::Ascend {
            passes.reverse();
            merged.reverse();
        }
        let case = format!("2^{lg_n}, {rows} rows, {way:?}, {turned}: {merged:?}");
        assert!(passes.len() > 2, "{case}");
        let shape = |pass: &Pass| (pass.lg_r, pass.lg_c, pass.lg_e);
        assert!(passes.iter().map(shape).eq(merged.iter().map(shape)), "{case}");
        let (last, columns) = merged.split_last().unwrap();
        assert_eq!(Some(last), passes.last(), "{case}");
        assert!(columns.iter().all(|pass| pass.merged), "{case}");
        let borders: Vec<_> = columns.iter().map(|pass| pass.kept).collect();
        assert_eq!(borders.iter().sum::<u32>(), 1, "{case}");
        assert_eq!(borders.last(), Some(&1), "{case}");
        found.push(lg_n);
    }
    found.dedup();
    assert_eq!(found, [18, 20, 22, 24, 26, 28, 30]);
}

#[test]
fn wholly_merged_passes_are_the_same_without_a_border() {
    let mut found = Vec::new();
    for (lg_n, rows, way, turned, _, passes) in every() {
        let Some(merged) = merge(&passes, way, true) else { continue };
        let case = format!("2^{lg_n}, {rows} rows, {way:?}, {turned}: {merged:?}");
        let shape = |pass: &Pass| (pass.lg_r, pass.lg_c, pass.lg_e);
        assert!(passes.iter().map(shape).eq(merged.iter().map(shape)), "{case}");
        if lg_n > 16 {
            assert_eq!(Some(merged), merge(&passes, way, false), "{case}");
            continue;
        }
        let last = if way == Way::Descend { merged.len() - 1 } else { 0 };
        for (i, pass) in merged.iter().enumerate() {
            assert!(pass.merged && (pass.kept > 0) == (i == last), "{case}");
        }
        assert!(merged.len() > 1 || lg_n == 10, "{case}");
        found.push(lg_n);
    }
    found.dedup();
    assert_eq!(found, [10, 14, 16]);
}

/// What was measured is what is chosen.
#[test]
fn plans_that_won_are_chosen() {
    let radices = |lg_n, rows| -> Vec<(u32, u32)> {
        let passes = passes(lg_n, rows, Way::Descend, false, &h200());
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

/// Tables as the engine and the bench have them, on an H200: 90 % of what is free of 140 GiB.
#[test]
fn borders_of_2_28_are_whole_on_an_h200() {
    let room = table_bytes_max(125 << 30);
    let is_merged = |passes: &[Pass]| passes.iter().filter(|pass| pass.merged).count();
    for lg_n in [18, 20, 22, 24, 26, 28] {
        for transform in every_transform(lg_n) {
            let passes = chosen(&transform, 1, room, &h200());
            let merges = transform.way() == Way::Descend || !transform.is_turned();
            let count = if merges { passes.len() - 1 } else { 0 };
            assert_eq!(is_merged(&passes), count, "{transform:?}: {passes:?}");
            // In two levels a border has two multiples, and one where it is whole.
            let ones = passes.iter().filter(|pass| pass.kept == 1).count();
            assert_eq!(ones, usize::from(merges || lg_n >= 20), "{transform:?}: {passes:?}");
        }
    }
    // Tables of both directions stay, with some for other sizes: see what a border takes.
    assert!(2 * (32 << 28) < room - (2 << 30));
    // A device with half the memory has two levels there, and says so.
    let forward = Transform {
        lg_n: 28,
        inverse: false,
        coset: Some(Fr::from(7_u64)),
        input_reversed: false,
        output_reversed: true,
    };
    let passes = chosen(&forward, 1, table_bytes_max(62 << 30), &h200());
    assert!(passes.iter().all(|pass| !pass.merged && pass.kept != 1), "{passes:?}");
}

#[test]
fn the_first_border_has_one_entry_a_factor_beyond_the_cache() {
    assert_eq!(h200(), TransformLimits { lg_tile_max: 11, lg_one_kept: 20 });
    let cached = TransformLimits::of(&DeviceLimits { l2_bytes: 96 << 20, ..DeviceLimits::H200 });
    assert_eq!(cached.lg_one_kept, 21);
}

#[test]
fn chosen_passes_fit_the_room() {
    for limits in devices() {
        for lg_n in 11..=LG_N_MAX {
            every_transform(lg_n).for_each(|transform| fit_the_room(&transform, &limits));
        }
    }
}

fn fit_the_room(transform: &Transform, limits: &TransformLimits) {
    // A share of it holds 2^lg_n whole, once.
    let lg_n = transform.lg_n;
    let whole = chosen(transform, 1 << 20, 64 << lg_n, limits);
    let less = chosen(transform, 1 << 20, (64 << lg_n) - 1, limits);
    let radices = |passes: &[Pass]| passes.iter().map(|p| p.lg_r).collect::<Vec<_>>();
    assert_eq!(radices(&whole), radices(&less));
    assert!(less.iter().all(|pass| !pass.merged), "{transform:?}: {less:?}");
    let mut lg_block = 0;
    let descends = transform.way() == Way::Descend;
    let upward: Vec<_> = if descends { less.iter().rev().collect() } else { less.iter().collect() };
    for pass in upward {
        lg_block += pass.lg_r;
        assert!(pass.kept != 1 || lg_block < lg_n, "{transform:?}: {less:?}");
    }
}
