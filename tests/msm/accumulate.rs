//! `src/gpu/msm/accumulate`: sums of buckets of any sizes, by each accumulation strategy.

use ark_bls12_381::{G1Affine, G2Affine};
use ark_ec::CurveGroup;
use ark_ff::UniformRand;
use ark_std::{
    rand::{Rng, RngCore},
    test_rng as rng,
};
use capstan::{
    curve::{Group, points::CurvePoint},
    device::DeviceFault,
    msm::{
        accumulate::{AccumulateShape, AccumulateTuning, Accumulator},
        references::SortedReferences,
    },
};

use crate::{
    gpu::{KernelRig, each_seed},
    points,
    repeat::some_of,
};

const SIGN: u32 = 1 << 31;

/// The tree; load-balanced shares of at least one and four elements; tree levels, then shares;
/// teams of lanes; tree levels, then teams. Teams fall back to shares if a bucket is too large.
pub const BALANCES: [(&str, AccumulateTuning); 6] = [
    ("tree", balance(1, 1, 0, 0)),
    ("single shares", balance(u32::MAX, 1, 0, 0)),
    ("shares", balance(u32::MAX, 4, 0, 0)),
    ("both", balance(60, 3, 0, 0)),
    ("teams", balance(u32::MAX, 2, u32::MAX, 0)),
    ("teams after levels", balance(100, 2, 0, u32::MAX)),
];

const fn balance(
    level_min: u32,
    share_min: u32,
    whole_digits: u32,
    team_left: u32,
) -> AccumulateTuning {
    AccumulateTuning {
        level_additions_min: level_min,
        share_references_min: share_min,
        whole_bucket_references_max: whole_digits,
        team_elements_max: team_left,
    }
}

/// References by bucket: a table index and a sign bit each.
pub type Buckets = Vec<Vec<u32>>;

/// A random reference to one of `length` points.
pub fn reference(rng: &mut impl RngCore, length: usize) -> u32 {
    rng.gen_range(0..length as u32) | (rng.next_u32() & SIGN)
}

/// Buckets of these sizes, filled with references from `pick`.
pub fn buckets(sizes: &[usize], mut pick: impl FnMut() -> u32) -> Buckets {
    sizes.iter().map(|&size| (0..size).map(|_| pick()).collect()).collect()
}

fn referenced<A: CurvePoint>(table: &[A], reference: u32) -> A::Group {
    let point = table[(reference & !SIGN) as usize].into_group();
    if reference & SIGN == 0 { point } else { -point }
}

fn expected<A: CurvePoint>(table: &[A], buckets: &Buckets) -> Vec<A::Group> {
    let sum = |own: &Vec<u32>| own.iter().map(|&reference| referenced(table, reference)).sum();
    buckets.iter().map(sum).collect()
}

/// Checks the sums of `buckets`, then the sums after `more` is added onto them. The bound on the
/// number of digits is too large by `spare`.
pub fn check<A: CurvePoint>(
    (rig, accumulator): (&KernelRig, &Accumulator),
    (strategy, balance): (&str, AccumulateTuning),
    table: &[A],
    [buckets, more]: [&Buckets; 2],
    spare: u32,
) {
    let count = buckets.len();
    let points = points::lease_points::<A>(rig, table.len());
    let placed = points::aligned_points::<A>(&points, table.len());
    points::write(rig, placed.span, table);
    let out = points::lease_points::<A>(rig, count);
    let out = points::aligned_points::<A>(&out, count).span;
    let mut sums = vec![A::Group::default(); count];
    for (onto, part) in [(false, buckets), (true, more)] {
        let mut all: Vec<u32> = part.iter().flatten().map(|index| index + placed.first).collect();
        let mut starts = vec![0];
        starts.extend(part.iter().scan(0, |end, own| {
            *end += own.len() as u32;
            Some(*end)
        }));
        // References after the last one must not matter.
        let digits = all.len() as u32 + spare;
        all.resize(digits as usize, u32::MAX);
        let shape = AccumulateShape {
            group: A::GROUP,
            references_max: digits,
            buckets: count as u32,
            accumulate: onto,
            xyzz: false,
            balance,
        };
        let (references, starts) = (rig.upload(&all), rig.upload(&starts));
        let sorted = SortedReferences { references: references.all(), starts: starts.all() };
        // The workspace's content must not matter.
        let workspace = rig.upload(&vec![0xee_u8; shape.bytes(&rig.limits()) as usize]);
        accumulator.run(rig.stream(), &shape, sorted, out, workspace.all()).unwrap();
        sums.iter_mut().zip(expected(table, part)).for_each(|(sum, new)| *sum += new);
        let compare = |found: &[A], what| {
            for (b, (found, sum)) in found.iter().zip(&sums).enumerate() {
                let size = part[b].len();
                assert_eq!(*found, sum.into_affine(), "{strategy}, {what}: bucket {b} of {size}");
            }
        };
        compare(&points::read(rig, out), if onto { "onto" } else { "alone" });
        if !onto {
            let shape = AccumulateShape { xyzz: true, ..shape };
            let wide = rig.upload(&vec![0xee_u8; count * shape.sum_bytes()]);
            let workspace = rig.upload(&vec![0xee_u8; shape.bytes(&rig.limits()) as usize]);
            accumulator.run(rig.stream(), &shape, sorted, wide.all(), workspace.all()).unwrap();
            compare(&points::read_xyzz(rig, wide.all()), "XYZZ");
        }
    }
}

/// Distinct points, infinity, and some equal and opposite points.
pub fn random_table<A: CurvePoint>(rng: &mut impl Rng) -> Vec<A> {
    let mut table: Vec<A> = (0..40).map(|_| A::Group::rand(rng).into_affine()).collect();
    table.push(A::zero());
    table.extend_from_within(..3);
    table.push((-table[5].into_group()).into_affine());
    table
}

/// Infinity and 1, 2 and 3 times a point: many sums are equal, opposite or infinity at every level.
fn small_table<A: CurvePoint>() -> Vec<A> {
    let mut table = vec![A::zero(), A::generator()];
    table.push((table[1] + table[1]).into_affine());
    table.push((table[1] + table[2]).into_affine());
    table
}

/// Cases of bucket sizes.
fn sizes(rng: &mut impl Rng) -> Vec<Vec<usize>> {
    let edges = vec![0, 1, 2, 3, 0, 0, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127, 128, 1];
    let one = vec![0, 0, 0, 300, 0];
    let few = (0..2100).map(|_| [0, 0, 0, 0, 0, 0, 1, 2, 3][rng.gen_range(0..9)]).collect();
    let random = (0..20).map(|_| rng.gen_range(0..60)).collect();
    vec![vec![0; 3], vec![1], vec![2], edges, one, few, random]
}

fn all_sizes<A: CurvePoint>() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let tables = [random_table::<A>(&mut rng), small_table()];
        for (i, sizes) in sizes(&mut rng).iter().enumerate() {
            for (table, strategy) in tables.iter().zip([BALANCES[i % 6], BALANCES[(i + 1) % 6]]) {
                let mut pick = || reference(&mut rng, table.len());
                let first = buckets(sizes, &mut pick);
                let mut rotated = sizes.clone();
                rotated.rotate_left(sizes.len() / 3);
                let more = buckets(&rotated, &mut pick);
                check((rig, &accumulator), strategy, table, [&first, &more], i as u32 * 10);
            }
        }
    });
}

/// Buckets just below, at and above the sizes of cells and pieces, among small ones and next to
/// each other; one bucket with nearly all references.
fn large_buckets_are_split<A: CurvePoint>() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let edges = [31, 32, 33, 63, 64, 65, 127, 128, 129, 33, 33, 255, 257, 0, 0, 32, 1000];
        let mut many: Vec<usize> = (0..1500).map(|_| rng.gen_range(0..3)).collect();
        for (i, &size) in edges.iter().enumerate() {
            let at = if i % 2 == 0 { 700 + i } else { rng.gen_range(0..700) };
            many[at] = size;
        }
        let none = vec![0; 3000];
        let hot = [&none[..1700], &[5000], &none].concat();
        let all = [many, hot, vec![32; 40], vec![33; 70], vec![100]];
        for (number, sizes) in all.into_iter().enumerate() {
            for table in some_of([random_table::<A>(&mut rng), small_table()], 2, number) {
                let own = buckets(&sizes, || reference(&mut rng, table.len()));
                let more = buckets(&vec![0; sizes.len()], || 0);
                check((rig, &accumulator), BALANCES[4], &table, [&own, &more], 100);
            }
        }
    });
}

#[test]
fn short_and_misaligned_spans_are_refused() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let shape = AccumulateShape {
            group: Group::G1,
            references_max: 10,
            buckets: 4,
            accumulate: true,
            xyzz: false,
            balance: AccumulateTuning::of(Group::G1, 10),
        };
        let (references, starts) = (rig.upload(&[0_u32; 10]), rig.upload(&[0_u32; 5]));
        let out = points::lease_points::<G1Affine>(rig, 5);
        let out = points::aligned_points::<G1Affine>(&out, 5).span;
        let part = |points: std::ops::Range<usize>| {
            out.slice(points.start * 96, points.len() * 96).unwrap()
        };
        let workspace = rig.lease::<u8>(shape.bytes(&rig.limits()) as usize);
        let room = workspace.all::<u8>();
        let run = |digits, bounds, out, room| {
            let sorted = SortedReferences {
                references: references.all().slice(0, digits).unwrap(),
                starts: starts.all().slice(0, bounds).unwrap(),
            };
            accumulator.run(rig.stream(), &shape, sorted, out, room)
        };
        run(10, 5, part(1..5), room).unwrap();
        let shifted = out.slice(16, 4 * 96).unwrap();
        for (digits, bounds, out, room) in [
            (9, 5, part(0..4), room),
            (10, 4, part(0..4), room),
            (10, 5, part(0..3), room),
            (10, 5, shifted, room),
            (10, 5, part(0..4), room.slice(0, room.len() / 2).unwrap()),
        ] {
            let refused = run(digits, bounds, out, room);
            assert!(matches!(refused, Err(DeviceFault::KernelMismatch { .. })), "{refused:?}");
        }
        // XYZZ sums cannot be added onto, and need twice the memory of affine ones.
        let sorted = SortedReferences { references: references.all(), starts: starts.all() };
        for onto in [false, true] {
            let shape = AccumulateShape { accumulate: onto, xyzz: true, ..shape };
            let span = if onto { out } else { part(0..4) };
            let refused = accumulator.run(rig.stream(), &shape, sorted, span, room);
            assert!(matches!(refused, Err(DeviceFault::KernelMismatch { .. })), "{refused:?}");
        }
        rig.stream().synchronize().unwrap();
    });
}

fn all_strategies<A: CurvePoint>() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<A>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let first = buckets(&[0, 40, 1, 0, 2, 97, 3, 33, 1, 0, 64, 5], &mut pick);
        let more = buckets(&[2, 0, 1, 0, 9, 0, 0, 31, 40, 1, 0, 5], &mut pick);
        for strategy in BALANCES {
            check((rig, &accumulator), strategy, &table, [&first, &more], 0);
        }
    });
}

/// At every level of the tree, pairs of points are equal, opposite, or contain infinity.
fn opposites_at_every_level<A: CurvePoint>() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let table = small_table::<A>();
        let block = |a: u32, b: u32| [a, b, b, a];
        let quads = [
            block(1, 1 | SIGN).to_vec(),
            [block(1, 2), block(1, 2)].concat(),
            [block(1, 2), block(1 | SIGN, 2 | SIGN)].concat(),
            [block(3, 0), block(0, 3 | SIGN), block(2, 1), block(3 | SIGN, 0)].concat(),
            vec![1; 16],
            [vec![2; 8], vec![2 | SIGN; 8]].concat(),
            vec![0; 13],
            vec![0, SIGN],
            vec![SIGN; 3],
            [vec![3; 11], vec![3 | SIGN; 11], vec![1]].concat(),
        ];
        for strategy in BALANCES {
            check((rig, &accumulator), strategy, &table, [&quads.to_vec(), &quads.to_vec()], 0);
        }
    });
}

/// A bucket with more shares than two rounds of warps combine, and buckets of about a warp.
#[test]
fn runs_are_combined_across_many_warps() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let hot = buckets(&[3, 1500, 0, 40], &mut pick);
        check((rig, &accumulator), BALANCES[1], &table, [&hot, &buckets(&[0; 4], &mut pick)], 0);
        let even = buckets(&[33; 40], &mut pick);
        check((rig, &accumulator), BALANCES[1], &table, [&even, &buckets(&[0; 40], &mut pick)], 0);
    });
}

/// Few nonempty buckets among many, in more tiles than one step of the scan covers.
#[test]
fn nonempty_buckets_far_apart_are_found() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        for (i, count) in some_of([2047, 2048, 2049, 300_000].into_iter().enumerate(), 3, 0) {
            let mut sizes = vec![0; count];
            for (at, size) in [(0, 3), (count / 3, 1), (count / 2, 70), (count - 1, 6)] {
                sizes[at] = size;
            }
            let mut pick = || reference(&mut rng, table.len());
            let first = buckets(&sizes, &mut pick);
            sizes.rotate_right(1);
            let more = buckets(&sizes, &mut pick);
            check((rig, &accumulator), BALANCES[3 - i], &table, [&first, &more], 1000);
        }
    });
}

/// Groups of 32 buckets with many items, with few, and with none.
#[test]
fn items_of_dense_and_sparse_buckets_are_listed() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut sizes = vec![12; 45];
        sizes.extend((0..700).map(|i| if i % 60 == 7 { 2 + i % 4 } else { usize::from(i == 33) }));
        sizes.extend([900, 0, 0, 70]);
        sizes.extend((0..100).map(|i| i % 4));
        sizes.extend([0; 70]);
        let mut pick = || reference(&mut rng, table.len());
        let first = buckets(&sizes, &mut pick);
        sizes.rotate_right(9);
        let more = buckets(&sizes, &mut pick);
        for strategy in [BALANCES[0], BALANCES[2], BALANCES[3]] {
            check((rig, &accumulator), strategy, &table, [&first, &more], 3);
        }
    });
}

/// Groups of 32 buckets with far more items than others, also in one bucket, are split into parts.
#[test]
fn groups_with_many_items_are_split() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut sizes = vec![3; 33];
        sizes.extend((0..31).map(|i| 20 + 5 * i));
        sizes.extend([1; 40]);
        sizes.extend([0, 2, 1801, 0, 5]);
        let mut pick = || reference(&mut rng, table.len());
        let first = buckets(&sizes, &mut pick);
        sizes.rotate_right(50);
        let more = buckets(&sizes, &mut pick);
        for strategy in [BALANCES[0], BALANCES[2], BALANCES[3]] {
            check((rig, &accumulator), strategy, &table, [&first, &more], 7);
        }
    });
}

/// Enough additions for all warps of a block.
#[test]
fn many_additions_occupy_all_warps() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let sizes: Vec<_> = (0..300).map(|_| pick() as usize % 220).collect();
        let [first, more] = [(); 2].map(|()| buckets(&sizes, &mut pick));
        check((rig, &accumulator), ("both", balance(1000, 4, 0, 0)), &table, [&first, &more], 5);
    });
}

macro_rules! test_group {
    ($($name:ident, $check:ident, $point:ty;)*) => {$(
        #[test]
        fn $name() {
            $check::<$point>();
        }
    )*};
}
test_group! {
    g1_buckets_of_all_sizes_match_arkworks, all_sizes, G1Affine;
    g2_buckets_of_all_sizes_match_arkworks, all_sizes, G2Affine;
    g1_large_buckets_are_split, large_buckets_are_split, G1Affine;
    g2_large_buckets_are_split, large_buckets_are_split, G2Affine;
    g1_all_strategies_match_arkworks, all_strategies, G1Affine;
    g2_all_strategies_match_arkworks, all_strategies, G2Affine;
    g1_equal_and_opposite_points_add_at_every_level, opposites_at_every_level, G1Affine;
    g2_equal_and_opposite_points_add_at_every_level, opposites_at_every_level, G2Affine;
}
