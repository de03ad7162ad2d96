//! Transforms of every order and direction, plain and on cosets.

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use capstan::{
    curve::{Decimation, NttPlan, layout},
    ntt::{NttLimits, NttPass},
};
use rand::{RngCore, SeedableRng, rngs::StdRng};

use crate::{
    emulated,
    rig::{each_seed, every_transform, with_most_gpu_memory},
};

const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Indices of transforms that run under every seed: forward to bit-reversed order, and inverse on a
/// coset to natural order.
const UNDER_ALL: [usize; 2] = [0b0010, 0b1101];

/// A number of rows for which the planner chooses a plan for batches.
const BATCH_ROWS: usize = 1 << 12;

#[test]
fn transforms_of_one_pass_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        for lg_n in 0..=10 {
            for (i, transform) in every_transform(lg_n).enumerate() {
                for rows in [1, 2, 5] {
                    if lg_n > 6 && rows > 1 && i % 3 != rows % 3 {
                        continue;
                    }
                    let plan = rig.transforms.plan(&transform, rows).unwrap();
                    let most = if lg_n < 10 { usize::from(lg_n > 0) } else { 2 };
                    assert!(plan.passes().count() <= most);
                    rig.check(&plan, rows, rows == 2);
                }
            }
        }
    });
}

#[test]
fn transforms_of_several_passes_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        for lg_n in 11..=14 {
            for (i, transform) in every_transform(lg_n).enumerate() {
                // Large transforms run under one seed each, except `UNDER_ALL`.
                let under_all = UNDER_ALL.contains(&i);
                if lg_n > 12 && !under_all && (i + seed) % 3 != 0 {
                    continue;
                }
                for many in [1, BATCH_ROWS] {
                    let plan = rig.transforms.plan(&transform, many).unwrap();
                    let rows = if lg_n == 11 { 3 } else { 1 + usize::from(under_all) };
                    rig.check(&plan, rows, i % 5 == 0);
                }
            }
        }
    });
}

/// Plans of the shapes of longer transforms: three and four passes, one or two multiples of
/// inter-pass twiddles, every number of elements per thread.
#[test]
fn plans_of_long_transforms_match_arkworks() {
    let pass = |lg_r, lg_e, lg_c, multiples| NttPass { lg_r, lg_c, lg_e, multiples, fused: false };
    let plans = [
        vec![pass(3, 3, 5, 1), pass(3, 3, 2, 2), pass(2, 2, 4, 0)],
        vec![pass(2, 2, 5, 1), pass(4, 2, 3, 2), pass(4, 2, 2, 0)],
        vec![pass(1, 1, 6, 2), pass(3, 3, 4, 1), pass(2, 2, 3, 2), pass(3, 1, 4, 0)],
        vec![pass(3, 3, 3, 2), pass(2, 2, 4, 1), pass(2, 1, 0, 2), pass(3, 1, 4, 0)],
        vec![pass(6, 3, 2, 2), pass(3, 1, 3, 0)],
        vec![pass(9, 3, 2, 1), pass(2, 2, 5, 0)],
        vec![pass(9, 3, 1, 1), pass(2, 2, 5, 0)],
    ];
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let lg_tile_max = NttLimits::of(&rig.gpu.identity().limits).lg_tile_max;
        for (number, passes) in plans.iter().enumerate() {
            if passes.iter().any(|pass| pass.lg_tile() > lg_tile_max) {
                continue;
            }
            let lg_n = passes.iter().map(|pass| pass.lg_r).sum();
            for (i, transform) in every_transform(lg_n).enumerate() {
                if lg_n > 10 && (i + seed) % 3 != 0 {
                    continue;
                }
                let mut passes = passes.clone();
                if transform.decimation() == Decimation::Dit {
                    passes.reverse();
                }
                let plan = rig.transforms.plan_with_passes(&transform, passes).unwrap();
                rig.check(&plan, 1 + (number + i) % 2, i % 3 == 0);
            }
        }
    });
}

/// Passes with specialised kernels as first, middle and last ones, in the shortest transforms.
#[test]
fn plans_of_specialised_kernels_match_arkworks() {
    let pass = |lg_r, lg_e, lg_c, multiples| NttPass { lg_r, lg_c, lg_e, multiples, fused: false };
    let plans = [
        vec![pass(10, 2, 0, 0)],
        vec![pass(6, 2, 2, 0)],
        vec![pass(2, 2, 5, 2), pass(8, 1, 0, 0)],
        vec![pass(6, 2, 2, 1), pass(6, 2, 2, 0)],
        vec![pass(6, 2, 2, 2), pass(6, 2, 2, 0)],
        vec![pass(8, 1, 1, 2), pass(3, 1, 4, 0)],
        vec![pass(8, 2, 2, 2), pass(4, 2, 3, 0)],
        vec![pass(2, 2, 5, 2), pass(8, 2, 0, 0)],
        vec![pass(3, 3, 4, 2), pass(8, 2, 1, 0)],
        vec![pass(1, 1, 6, 2), pass(6, 2, 2, 2), pass(6, 2, 2, 0)],
        vec![pass(2, 2, 5, 2), pass(10, 2, 0, 0)],
    ];
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        for (number, passes) in plans.iter().enumerate() {
            let lg_n = passes.iter().map(|pass| pass.lg_r).sum();
            for (i, transform) in every_transform(lg_n).enumerate() {
                if (i + number + seed) % 3 != 0 {
                    continue;
                }
                let mut passes = passes.clone();
                if transform.decimation() == Decimation::Dit {
                    passes.reverse();
                }
                let plan = rig.transforms.plan_with_passes(&transform, passes).unwrap();
                rig.check(&plan, 1 + (number + i) % 3, i % 2 == 0);
            }
        }
    });
}

/// Fused twiddles in the first, middle and last column passes, plain and on cosets, in batches.
#[test]
fn plans_of_fused_column_passes_match_arkworks() {
    let rows = |lg_r, lg_e, lg_c| NttPass { lg_r, lg_c, lg_e, multiples: 0, fused: false };
    let fused = |lg_r, multiples| NttPass { lg_r, lg_c: 2, lg_e: 2, multiples, fused: true };
    let plans = [
        vec![fused(6, 1), rows(6, 2, 2)],
        vec![fused(8, 1), rows(4, 2, 3)],
        vec![fused(6, 0), fused(6, 1), rows(2, 2, 5)],
        vec![fused(8, 0), fused(6, 1), rows(2, 2, 6)],
    ];
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        for (number, passes) in plans.iter().enumerate() {
            let lg_n = passes.iter().map(|pass| pass.lg_r).sum();
            for (i, transform) in every_transform(lg_n).enumerate() {
                let mut passes = passes.clone();
                if transform.decimation() == Decimation::Dit {
                    passes.reverse();
                }
                let plan = rig.transforms.plan_with_passes(&transform, passes);
                let is_right =
                    transform.decimation() == Decimation::Dif || !transform.needs_bit_reversal();
                assert_eq!(plan.is_ok(), is_right, "{transform:?}");
                if let Ok(plan) = plan
                    && (lg_n <= 12 || (i + number + seed).is_multiple_of(3))
                {
                    rig.check(&plan, if lg_n <= 14 { 1 + (number + i) % 3 } else { 1 }, i % 2 == 0);
                }
            }
        }
    });
}

/// Fused twiddles in the row pass, too: alone and after each kind of column pass, with one and two
/// rows per block. Only cosets whose powers can be part of twiddles are allowed.
#[test]
fn plans_of_fused_row_passes_match_arkworks() {
    let fused = |lg_r, lg_c, multiples| NttPass { lg_r, lg_c, lg_e: 2, multiples, fused: true };
    let plans = [
        vec![fused(10, 0, 4)],
        vec![fused(6, 2, 0), fused(8, 0, 2)],
        vec![fused(6, 2, 0), fused(8, 1, 2)],
        vec![fused(8, 2, 0), fused(8, 0, 2)],
        vec![fused(8, 2, 0), fused(8, 1, 2)],
        vec![fused(6, 2, 0), fused(10, 0, 4)],
    ];
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        for (number, passes) in plans.iter().enumerate() {
            let lg_n = passes.iter().map(|pass| pass.lg_r).sum();
            for (i, transform) in every_transform(lg_n).enumerate() {
                let is_dif = transform.decimation() == Decimation::Dif;
                let mut passes = passes.clone();
                let has_kernel = is_dif || passes.iter().all(|pass| *pass != fused(8, 1, 2));
                if !is_dif {
                    passes.reverse();
                }
                let plan = rig.transforms.plan_with_passes(&transform, passes);
                let is_natural = transform.coset.is_none() || is_dif != transform.inverse;
                let is_right =
                    (is_dif || !transform.needs_bit_reversal()) && is_natural && has_kernel;
                assert_eq!(plan.is_ok(), is_right, "{transform:?}");
                let Ok(plan) = plan else { continue };
                match lg_n {
                    10 => rig.check(&plan, 1 + (number + i) % 3, i % 2 == 0),
                    14 if i % 3 != seed => rig.check(&plan, 1 + (number + i) % 2, i % 2 == 0),
                    // Under one seed each.
                    16 if (i / 2 + number) % 3 == seed => rig.check(&plan, 1, i % 2 == 0),
                    _ => {}
                }
            }
        }
    });
}

/// Plans of the planner with fused twiddles in all passes.
#[test]
fn long_transforms_match_arkworks() {
    each_seed(512 << 20, |rig, seed| {
        for (i, transform) in every_transform(16).enumerate() {
            if emulated::driver().is_none() || i % 8 == seed {
                let plan = rig.transforms.plan(&transform, 1).unwrap();
                rig.check(&plan, 1, i % 2 == 0);
            }
        }
    });
}

/// Every size that arkworks transforms in seconds, with the engine's plans.
#[test]
fn longest_transforms_match_arkworks() {
    with_most_gpu_memory(|rig| {
        for lg_n in 0..=24 {
            for (i, transform) in every_transform(lg_n).enumerate() {
                // Only some of the largest transforms: arkworks and the random numbers are slow.
                if lg_n <= 18 || i % 5 == lg_n as usize % 5 {
                    let plan = rig.transforms.plan(&transform, 1).unwrap();
                    rig.check(&plan, 1, i % 2 == 0);
                }
            }
        }
    });
}

/// The largest size with published results, with fused twiddles and tables of both directions.
#[test]
fn inverse_of_forward_is_identity_for_2_28() {
    with_most_gpu_memory(|rig| {
        let lg_n = 28;
        let values = random(1 << lg_n);
        for forward in every_transform(lg_n).filter(|transform| !transform.inverse) {
            if forward.needs_bit_reversal() {
                continue;
            }
            let stream = rig.stream();
            let data = rig.upload(&stream, &values);
            for transform in [forward, back(&forward)] {
                let plan = rig.transforms.plan(&transform, 1).unwrap();
                rig.transforms.run(&stream, &plan, data.all(), 1, None).unwrap();
            }
            assert!(rig.download(&stream, &data) == values, "{forward:?}");
        }
    });
}

/// The inverse of `forward`.
fn back(forward: &NttPlan) -> NttPlan {
    NttPlan {
        inverse: true,
        input_reversed: forward.output_reversed,
        output_reversed: forward.input_reversed,
        ..*forward
    }
}

/// Random elements, made fast: limbs of 62 bits, so that they are below r.
fn random(count: usize) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(count as u64);
    let mut values = vec![Fr::ZERO; count];
    rng.fill_bytes(layout::fr_as_bytes_mut(&mut values));
    values.iter_mut().flat_map(|value| &mut value.0.0).for_each(|limb| *limb >>= 2);
    values
}

#[test]
fn inverse_of_forward_is_identity() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        for lg_n in [4, 12] {
            for forward in every_transform(lg_n).filter(|transform| !transform.inverse) {
                if forward.needs_bit_reversal() {
                    continue;
                }
                let values = crate::rig::edge_elements(3 << lg_n, 9);
                let stream = rig.stream();
                let data = rig.upload(&stream, &values);
                for transform in [forward, back(&forward)] {
                    let plan = rig.transforms.plan(&transform, 3).unwrap();
                    rig.transforms.run(&stream, &plan, data.all(), 3, None).unwrap();
                }
                assert_eq!(rig.download(&stream, &data), values);
            }
        }
    });
}
