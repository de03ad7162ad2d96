//! The kernels that plans of jobs use, compared with those that the self-test of a GPU runs.

use std::collections::BTreeSet;

use capstan::{
    curve::{Fr, Group, NttPlan},
    device::DeviceLimits,
    engine::cuda::self_test::{EMULATED, ON_A_GPU},
    msm::{
        BaseMemory, MsmBudget, MsmPassPlan, MsmSize, ResidentPlan, SplitThresholds,
        tables::scratch_bytes,
    },
    ntt::{LG_N_MAX, NttLimits, choose_passes, kernel_names, table_bytes_max},
};

use crate::{limits::PRESETS, unusable::STEP_FAULTS};

/// Bytes of arenas: most of a small GPU, and most of an H200.
const ARENAS: [u64; 2] = [20 << 30, 125 << 30];

/// log2 of the elements that a GPU transforms at a time, if there are many rows.
const LG_GROUP: u32 = 18;

/// The kernels of jobs that are too large for a self-test.
const LARGER_ONLY: &[&str] = &[
    // MSMs of at least 2^22 points. Tests of `tests/msm` run all radices.
    "radix windows",
    // NTTs longer than the L2 cache, which is 2^20 elements on an H200, if their passes do not have
    // fused twiddles.
    "ntt_dit_columns_e2_b1",
    "ntt_dit_columns_e3_b1",
    "ntt_dit_columns_r6_c2_e2_b1",
    "ntt_dif_columns_e3_b1",
    // NTTs of at least 2^28 elements.
    "ntt_dit_fused_r8_c2_b1",
    "ntt_dif_fused_r8_c2_b1",
    // NTTs of 2^25 elements on a device with 2 MiB of L2; other devices use them for batches of
    // 2^16 elements per row.
    "ntt_dit_columns_r8_c2_e2_b2",
    "ntt_dif_columns_r8_c2_e2_b2",
];

/// The kernels of MSMs of all sizes: over bases with and without tables, of one vector and of
/// several, and with passes that start before all scalars are received.
fn msm_kernels(limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let sizes = (0..=26).flat_map(|lg_n| [1 << lg_n, 3 << lg_n >> 1]).filter(|n| *n <= 1 << 26);
    for (group, n) in sizes.flat_map(|n| [(Group::G1, n), (Group::G2, n)]) {
        let scratch = scratch_bytes(group, n, &limits);
        let memory = BaseMemory { total: arena_bytes, free: arena_bytes, table_scratch: scratch };
        for stage in ResidentPlan::stages(group, n, limits, memory) {
            names.extend(stage.plan.kernels());
            let mut streamed = stage.plan.clone();
            if streamed.enable_streaming() {
                names.extend(streamed.kernels());
            }
            let made = Some(stage.plan.windows()).filter(|windows| windows.tables() > 1);
            let room = MsmBudget { bytes: arena_bytes.saturating_sub(stage.table_bytes), limits };
            for vectors in [2, 64, 1000] {
                let job = MsmSize { group, n, vectors };
                let windows = job.choose_windows_for_tables(made, &limits);
                let usual = SplitThresholds::USUAL;
                let plan = MsmPassPlan::with_thresholds(job, windows, room, usual);
                names.extend(plan.map(|plan| plan.kernels()).unwrap_or_default());
            }
        }
    }
    names
}

/// The kernels of NTTs of all lengths in every order, both directions, with and without a coset.
fn ntt_kernels(limits: DeviceLimits, arena_bytes: u64) -> BTreeSet<String> {
    let (room, limits) = (table_bytes_max(arena_bytes), NttLimits::of(&limits));
    let mut names = BTreeSet::new();
    for lg_n in 1..=LG_N_MAX {
        let most = LG_GROUP.saturating_sub(lg_n);
        for rows in (0..=most).flat_map(|lg_rows| [1 << lg_rows, (5 << lg_rows) / 4]) {
            for bits in 0..16_u32 {
                let bit = |i: u32| bits >> i & 1 == 1;
                let transform = NttPlan {
                    lg_n,
                    inverse: bit(0),
                    coset: bit(1).then_some(Fr::from(7_u64)),
                    input_reversed: bit(2),
                    output_reversed: bit(3),
                };
                let passes = choose_passes(&transform, rows, room, &limits);
                names.extend(kernel_names(&transform, &passes));
            }
        }
    }
    names
}

#[test]
fn the_self_test_runs_every_kernel_of_jobs() {
    let mut missed = BTreeSet::new();
    for (device, limits) in PRESETS {
        for arena_bytes in ARENAS {
            let served = &msm_kernels(limits, arena_bytes) | &ntt_kernels(limits, arena_bytes);
            let tested = ON_A_GPU.kernels(limits, arena_bytes);
            println!("{device}, {} GiB: {:?}", arena_bytes >> 30, &served - &tested);
            missed.extend(&served - &tested);
        }
    }
    let larger = LARGER_ONLY.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(missed, larger);
}

/// The kernels of integers and of matrices of bits depend on few sizes, so that even the self-test
/// of the emulated driver runs all of them: [`STEP_FAULTS`] has a fault of each that it finds.
#[test]
fn the_self_test_runs_every_kernel_of_integers_and_bits() {
    let sources = [
        include_str!("../../kernels/integers/limbs.cu"),
        include_str!("../../kernels/gf2/panel.cu"),
        include_str!("../../kernels/gf2/strips.cu"),
        include_str!("../../kernels/gf2/update.cu"),
    ];
    let exported = sources.iter().flat_map(|source| source.split("EXPORT_KERNEL(").skip(1));
    let exported = exported.filter_map(|rest| rest.split_once(')')).map(|(name, _)| name);
    // A macro makes the names of two kernels.
    let named = exported.filter(|name| *name != "integers_limbs_##parts");
    let all: BTreeSet<_> = named.chain(["integers_limbs_1", "integers_limbs_3"]).collect();
    let found = STEP_FAULTS.iter().filter_map(|(fault, _)| fault.split_once(':'));
    // Devices without binary matrix instructions use tables instead of them.
    let found = found.map(|(kernel, _)| kernel).chain(["gf2_update_tables"]);
    assert_eq!(all, found.collect());
}

/// The self-test of the emulated driver has fewer sizes, which still reach most kernels. Tests in
/// [`crate::unusable`] use sizes that reach others.
#[test]
fn the_emulated_self_test_runs_every_stage() {
    let limits = DeviceLimits { multiprocessors: 4, ..DeviceLimits::H200 };
    let tested = EMULATED.kernels(limits, 50 << 20);
    for name in [
        "msm_sort_direct",
        "sliding windows",
        "g1_balanced_share",
        "g1_tree_level",
        "g1_bucket_team_sums",
        "g2_balanced_merge",
        "g2_tree_level",
        "g2_tables",
        "ntt_dit_columns_e1_b2",
        "ntt_dit_fused_r10_c0_l4",
        "ntt_dif_columns_e3_b2",
        "ntt_dif_columns_r6_c2_e2_b2",
        "ntt_dif_rows_e2",
    ] {
        assert!(tested.contains(name), "{name} is not in {tested:?}");
    }
}
