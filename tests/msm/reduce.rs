//! Bucket reduction: `kernels/msm/reduce.cu` and its plans.

use ark_bls12_381::{g1, g2};
use ark_ec::{
    AffineRepr,
    short_weierstrass::{Affine, Projective},
};
use ark_ff::AdditiveGroup;
use ark_std::{rand::RngCore, test_rng};
use capstan::{
    curve::Group,
    device::DeviceLimits,
    msm::reduce::{
        self, BucketWeights, HostTakeover, ReducePlan, ReduceShape, ReduceTuning, Reducer,
        combine_on_host,
    },
};

use crate::{
    gpu::{KernelRig, each_seed},
    points::{TestCurve, distinct, loose_limbs, xyzz_limbs},
    repeat::some_of,
};

/// Numbers of vectors, and shifts of a vector's sets: equal and mixed distances, and shifts for
/// which the device has no doubling ladder.
fn layouts() -> Vec<(u32, Vec<u32>)> {
    let sixteen = (0..16).map(|set| set * 4 - set.min(9)).collect();
    vec![(1, vec![0]), (1, sixteen), (33, vec![0]), (5, vec![0, 7, 13]), (2, vec![1, 3, 9])]
}

/// Buckets of one of seven kinds: distinct, equal, opposite, empty, mixed.
fn buckets_of_kind<P: TestCurve>(
    rng: &mut impl RngCore,
    kind: usize,
    count: usize,
) -> Vec<Affine<P>> {
    let point = distinct::<P>(rng, 1)[0];
    let few = [point, -point, (point + point).into(), Affine::zero()];
    let mut pick = |from: &[Affine<P>]| from[rng.next_u32() as usize % from.len()];
    match kind % 7 {
        0 => distinct(rng, count),
        1 => vec![point; count],
        2 => vec![Affine::zero(); count],
        3 => {
            let mut one = vec![Affine::zero(); count];
            one[count - 1 - count / 3] = point;
            one
        }
        4 => (0..count).map(|b| if b % 2 == 0 { point } else { -point }).collect(),
        5 => (0..count).map(|_| pick(&few)).collect(),
        // Mostly empty, as with short or skewed scalars.
        _ => (0..count).map(|b| if b % 5 == 0 { pick(&few) } else { Affine::zero() }).collect(),
    }
}

/// The sums by the definition, with running sums.
fn expected<P: TestCurve>(shape: &ReduceShape, buckets: &[Affine<P>]) -> Vec<Projective<P>> {
    let sets: Vec<Projective<P>> = buckets
        .chunks(shape.buckets as usize)
        .map(|set| {
            let (mut sum, mut weighted) = (Projective::ZERO, Projective::ZERO);
            for bucket in set.iter().rev() {
                sum += bucket;
                weighted += sum;
            }
            match shape.weights {
                BucketWeights::Consecutive => weighted,
                BucketWeights::Odd => weighted + weighted - sum,
            }
        })
        .collect();
    let vector = |sets: &[Projective<P>]| {
        let shifted = sets
            .iter()
            .zip(&shape.shifts)
            .map(|(set, shift)| (0..*shift).fold(*set, |sum, _| sum + sum));
        shifted.sum()
    };
    sets.chunks(shape.shifts.len()).map(vector).collect()
}

fn run<P: TestCurve + reduce::DeviceCurve>(
    rig: &KernelRig,
    plan: &ReducePlan,
    buckets: &[Affine<P>],
) -> Vec<Projective<P>> {
    let reducer = Reducer::load(rig.gpu().context()).unwrap();
    // The points after the last set must not be read.
    let behind = plan.shape.buckets.next_power_of_two() as usize;
    let given = [buckets, &vec![Affine::generator(); behind]].concat();
    let given = rig.upload(&match plan.shape.xyzz {
        true => xyzz_limbs(&mut test_rng(), &given),
        false => loose_limbs(&given),
    });
    // The workspace's content must not matter.
    let workspace = rig.upload(&vec![0xa5_u8; plan.workspace_bytes() as usize]);
    let out = rig.upload(&vec![0xa5_u8; plan.output_bytes() as usize]);
    reducer.run(rig.stream(), plan, given.all(), workspace.all(), out.all()).unwrap();
    combine_on_host::<P>(plan, &rig.download::<u8>(&out))
}

/// Tunings for all code paths: with and without slices, terms split or not, small and large teams.
fn tunings() -> Vec<ReduceTuning> {
    let tuning = |slice_points_min, lg_part, multiprocessors, groups| ReduceTuning {
        multiprocessors,
        slice_threads: u64::from(multiprocessors) * 256,
        slice_points_min,
        lg_part,
        teams_per_multiprocessor: groups,
    };
    vec![
        tuning(u64::MAX, 7, 132, 64),
        tuning(1, 7, 132, 64),
        tuning(u64::MAX, 2, 2, 64),
        tuning(1, 0, 1, 64),
        tuning(1, 1, 1, 1),
    ]
}

/// Checks sets of `buckets` in one layout. `turn` selects kind, weights, tuning, and ending.
fn check_shape<P: TestCurve + reduce::DeviceCurve>(
    rig: &KernelRig,
    rng: &mut impl RngCore,
    turn: usize,
    buckets: u32,
    (vectors, shifts): (u32, Vec<u32>),
) {
    let (group, xyzz) = (<P as TestCurve>::GROUP, turn % 3 == 1);
    let weights = [BucketWeights::Consecutive, BucketWeights::Odd][turn / 2 % 2];
    let shape = ReduceShape { group, vectors, shifts, buckets, weights, xyzz };
    let count = vectors as usize * shape.shifts.len() * buckets as usize;
    let given = buckets_of_kind::<P>(rng, turn, count);
    let tuning = tunings()[turn % tunings().len()];
    let plans = ReducePlan::all(&shape, &tuning);
    let plan = &plans[turn / 2 % plans.len()];
    let found = run(rig, plan, &given);
    assert!(found == expected(&shape, &given), "turn {turn}: {plan:?}");
}

fn check_shapes<P: TestCurve + reduce::DeviceCurve>(lg_most: u32) {
    each_seed(|rig| {
        let (mut rng, mut turn) = (test_rng(), 0);
        for lg_buckets in 0..=lg_most {
            let turns = layouts().into_iter().zip(turn..);
            for (layout, turn) in some_of(turns, 2, turn) {
                check_shape::<P>(rig, &mut rng, turn, 1 << lg_buckets, layout);
            }
            turn += layouts().len();
        }
    });
}

/// Numbers of buckets that are not powers of two, so that the last row is shorter than the others.
fn check_counts<P: TestCurve + reduce::DeviceCurve>(counts: &[u32]) {
    each_seed(|rig| {
        let mut rng = test_rng();
        for (i, &buckets) in counts.iter().enumerate() {
            let layouts = [(1, vec![0]), (1, vec![0, 4]), (3, vec![0]), (2, vec![0, 7, 13])];
            for (k, layout) in layouts.into_iter().enumerate().filter(|(k, _)| rig.runs_case(i + k))
            {
                check_shape::<P>(rig, &mut rng, 4 * i + 7 * k, buckets, layout);
            }
        }
    });
}

/// Every kind of buckets with every tuning, at one size.
fn check_tunings<P: TestCurve + reduce::DeviceCurve>(buckets: u32) {
    each_seed(|rig| {
        let mut rng = test_rng();
        for kind in 0..7 {
            let (group, xyzz) = (<P as TestCurve>::GROUP, kind % 2 == 1);
            let (shifts, weights) =
                (vec![0, 5], [BucketWeights::Consecutive, BucketWeights::Odd][kind / 2 % 2]);
            let shape = ReduceShape { group, vectors: 1, shifts, buckets, weights, xyzz };
            let given = buckets_of_kind::<P>(&mut rng, kind, 2 * buckets as usize);
            let expected = expected(&shape, &given);
            for (number, tuning) in tunings().into_iter().enumerate() {
                let plans = ReducePlan::all(&shape, &tuning);
                let plan = &plans[(kind + number) % plans.len()];
                assert!(run(rig, plan, &given) == expected, "kind {kind}: {plan:?}");
            }
        }
    });
}

#[test]
fn g1_sums_of_every_shape_match_arkworks() {
    check_shapes::<g1::Config>(9);
}

#[test]
fn g2_sums_of_every_shape_match_arkworks() {
    check_shapes::<g2::Config>(7);
}

#[test]
fn g1_sums_of_any_number_of_buckets_match_arkworks() {
    let few = [1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 63, 64, 65, 100, 127, 129];
    check_counts::<g1::Config>(&[&few[..], &[9 << 4, 5 << 5, 255, 257, 9 << 6, 1025]].concat());
}

#[test]
fn g2_sums_of_any_number_of_buckets_match_arkworks() {
    check_counts::<g2::Config>(&[1, 3, 6, 31, 33, 63, 65, 9 << 3, 5 << 4]);
}

#[test]
fn g1_sums_with_every_tuning_match_arkworks() {
    check_tunings::<g1::Config>(256);
    check_tunings::<g1::Config>(9 << 4);
}

#[test]
fn g2_sums_with_every_tuning_match_arkworks() {
    check_tunings::<g2::Config>(5 << 3);
}

/// Plans only, at sizes that would take hours on the emulated driver.
#[test]
fn plans_are_short_and_choose_the_cheapest_ending() {
    let plan = |group, vectors, shifts: Vec<u32>, lg_buckets: u32| {
        let (buckets, weights) = (1 << lg_buckets, BucketWeights::Consecutive);
        let shape = ReduceShape { group, vectors, shifts, buckets, weights, xyzz: false };
        ReducePlan::new(&shape, &ReduceTuning::for_limits(&DeviceLimits::H200, group))
    };
    let one = plan(Group::G1, 1, vec![0], 9);
    assert_eq!((one.steps.len(), one.host_step), (2, HostTakeover::Terms), "{one:?}");
    let tables = plan(Group::G1, 1, vec![0], 21);
    assert_eq!((tables.steps.len(), tables.host_step), (4, HostTakeover::Terms), "{tables:?}");
    assert!(tables.workspace_bytes() < 8 << 20, "{tables:?}");
    let variable = plan(Group::G1, 1, (0..16).map(|set| 16 * set).collect(), 15);
    assert_eq!(
        (variable.host_step, variable.output_points()),
        (HostTakeover::Sets, 16),
        "{variable:?}"
    );
    let batch = plan(Group::G1, 1000, vec![0], 9);
    assert_eq!((batch.host_step, batch.output_points()), (HostTakeover::Sets, 1000), "{batch:?}");
    let several = plan(Group::G1, 1000, vec![0, 10, 19], 9);
    assert_eq!(
        (several.host_step, several.output_points()),
        (HostTakeover::Vectors, 1000),
        "{several:?}"
    );
    let uncountable = plan(Group::G2, 1000, vec![0, 9, 11], 9);
    assert_eq!(uncountable.host_step, HostTakeover::Sets, "{uncountable:?}");
}
