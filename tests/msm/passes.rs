//! MSMs in several passes against arkworks: if memory is short, and over scalars still arriving.

use std::ops::Range;

use ark_bls12_381::{Fr, g1, g2};
use ark_ff::AdditiveGroup;
use capstan::msm::{MsmPass, MsmPassPlan, MsmSize, Recoding, SplitThresholds, reduce::DeviceCurve};

use crate::{
    complete_msms::{AMPLE, MsmBench, job},
    digits::radix,
    gpu::each_seed,
    points,
    scalars::{DISTRIBUTIONS, edges, rng, uniform},
};

/// Thresholds so low that a test's few scalars are split as those of large MSMs are.
const CUTS: SplitThresholds = SplitThresholds {
    streamed_scalars_min: 1,
    points_min: 7,
    whole_bucket_digits_max: 0,
    level_additions_min: None,
};

fn fixed(bits: u32, sets: u32) -> Recoding {
    Recoding::fixed(bits, sets, 64).unwrap()
}

fn sliding(bits: u32) -> Recoding {
    Recoding::sliding(bits).unwrap()
}

/// Whether passes are split by vectors, by bucket sets, and by points.
fn splits(plan: &MsmPassPlan) -> [bool; 3] {
    let (job, sets) = (*plan.job(), plan.windows().sets());
    let any = |cut: &dyn Fn(&MsmPass) -> bool| plan.passes().any(|pass| cut(&pass));
    [
        any(&|pass| pass.vectors.len() < job.vectors as usize),
        any(&|pass| pass.sets.len() < sets as usize),
        any(&|pass| pass.points.len() < job.n as usize),
    ]
}

/// Plans for less and less memory, each with one byte less than its predecessor needs.
fn plans_for_less_memory(
    job: MsmSize,
    windows: Recoding,
    bench: &MsmBench<'_, impl points::TestCurve + DeviceCurve>,
) -> Vec<MsmPassPlan> {
    let plan = |bytes| MsmPassPlan::with_thresholds(job, windows, bench.room(bytes), CUTS);
    std::iter::successors(plan(AMPLE), |wider| plan(wider.bytes() - 1)).collect()
}

/// Finds the first plan of each case that is split as wanted, and compares it with arkworks. The
/// tightest plan must be split in every way possible.
fn check_short_memory<P: points::TestCurve + DeviceCurve>(
    cases: &[(usize, u32, Recoding, [bool; 3])],
) {
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, 45);
        let mut rng = rng();
        for &(n, vectors, windows, cut) in cases {
            let job = MsmSize { vectors, ..job::<P>(n) };
            let plans = plans_for_less_memory(job, windows, &bench);
            assert_eq!(plans[0].passes().count(), 1);
            let first = plans.iter().find(|plan| splits(plan) == cut).expect("such a split");
            assert_eq!(splits(plans.last().unwrap()), [vectors > 1, windows.sets() > 1, true]);
            let scalars: Vec<_> = (0..n * vectors as usize).map(|_| uniform(&mut rng)).collect();
            let passes: Vec<_> = first.passes().collect();
            assert!(passes.len() > 1, "{first}");
            bench.compare_in(first, &passes, &scalars);
        }
    });
}

/// Compares an MSM in passes over these ranges of points with arkworks.
fn check_pieces<P: points::TestCurve + DeviceCurve>(
    bench: &MsmBench<'_, P>,
    windows: Recoding,
    pieces: &[Range<u32>],
    scalars: &[Fr],
) {
    let job = job::<P>(scalars.len());
    let mut plan = MsmPassPlan::with_thresholds(job, windows, bench.room(AMPLE), CUTS).unwrap();
    assert!(plan.enable_streaming());
    let passes: Vec<_> = pieces.iter().map(|piece| plan.pass_over(piece.clone())).collect();
    assert_eq!(passes.iter().filter(|pass| pass.accumulate).count(), pieces.len() - 1);
    bench.compare_in(&plan, &passes, scalars);
}

fn check_streamed<P: points::TestCurve + DeviceCurve>(all: &[Recoding]) {
    let pieces = [vec![0..1, 1..2, 2..45], vec![0..20, 20..41, 41..45], vec![0..33, 33..45]];
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, 45);
        let mut rng = rng();
        for (i, windows) in all.iter().enumerate() {
            for (j, pieces) in pieces.iter().enumerate().filter(|(j, _)| rig.runs_case(i + j)) {
                let (name, scalar) = DISTRIBUTIONS[(3 * i + 5 * j) % DISTRIBUTIONS.len()];
                println!("{windows:?}, {name}");
                let scalars: Vec<_> = (0..45).map(|i| scalar(&mut rng, i)).collect();
                check_pieces(&bench, *windows, pieces, &scalars);
            }
        }
    });
}

/// Base 9 equals base 8, and base 11 is the opposite of base 10: a pass doubles buckets of an
/// earlier pass, cancels them, or adds onto empty ones.
fn check_equal_and_opposite<P: points::TestCurve + DeviceCurve>(all: &[Recoding]) {
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, 14);
        let mut rng = rng();
        for (i, windows) in all.iter().enumerate().filter(|(i, _)| rig.runs_case(*i)) {
            let [a, b] = [uniform(&mut rng), edges()[7 + i]];
            let scalars: Vec<_> = (0..14)
                .map(|i| match i {
                    8 | 9 => a,
                    10 | 11 => b,
                    13 => -b,
                    _ => Fr::ZERO,
                })
                .collect();
            check_pieces(&bench, *windows, &[0..3, 3..9, 9..11, 11..13, 13..14], &scalars);
        }
    });
}

#[test]
fn msms_short_of_memory_match_arkworks() {
    const VECTORS: [bool; 3] = [true, false, false];
    const SETS: [bool; 3] = [false, true, false];
    const POINTS: [bool; 3] = [false, false, true];
    check_short_memory::<g1::Config>(&[
        (33, 3, fixed(6, 1), VECTORS),
        (33, 1, fixed(8, 5), SETS),
        (45, 1, fixed(6, 1), POINTS),
        (29, 1, sliding(5), POINTS),
        (17, 2, fixed(7, 2), [true, true, true]),
    ]);
    check_short_memory::<g2::Config>(&[
        (9, 3, fixed(6, 1), VECTORS),
        (9, 1, fixed(8, 5), SETS),
        (20, 1, fixed(6, 1), POINTS),
    ]);
}

#[test]
fn msms_over_streamed_scalars_match_arkworks() {
    check_streamed::<g1::Config>(&[fixed(6, 1), sliding(5), fixed(8, 32), radix(26).unwrap()]);
    check_streamed::<g2::Config>(&[fixed(5, 1), sliding(6)]);
}

#[test]
fn passes_over_equal_and_opposite_points_match_arkworks() {
    check_equal_and_opposite::<g1::Config>(&[fixed(6, 1), sliding(5), radix(26).unwrap()]);
    check_equal_and_opposite::<g2::Config>(&[fixed(6, 1), sliding(6)]);
}
