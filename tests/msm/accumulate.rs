//! `src/msm/accumulate.rs`: buckets of any sizes, by the tree, by equal shares, and by both.

use ark_bls12_381::{G1Affine, G2Affine};
use ark_ec::CurveGroup;
use ark_ff::UniformRand;
use ark_std::{
    rand::{Rng, RngCore},
    test_rng as rng,
};
use capstan::{
    curve::{Group, points::CurvePoint},
    device::Fault,
    msm::accumulate::{Accumulator, Balance, Shape, Sorted},
};

use crate::{
    gpu::{Rig, each_seed},
    points,
};

const SIGN: u32 = 1 << 31;

/// The tree to its end; shares of one and of four elements; first one, then the other; teams, or
/// shares where one bucket is too large for them; levels, then teams likewise.
const WAYS: [(&str, Balance); 6] = [
    ("tree", way(1, 1, 0, 0)),
    ("single shares", way(u32::MAX, 1, 0, 0)),
    ("shares", way(u32::MAX, 4, 0, 0)),
    ("both", way(60, 3, 0, 0)),
    ("teams", way(u32::MAX, 2, u32::MAX, 0)),
    ("teams after levels", way(100, 2, 0, u32::MAX)),
];

const fn way(level_min: u32, share_min: u32, whole_digits: u32, team_left: u32) -> Balance {
    Balance { level_min, share_min, whole_digits, team_left }
}

/// Sorted references to a table: for each bucket, numbers in the table and signs.
type Buckets = Vec<Vec<u32>>;

/// To any of `length` points, with any sign.
fn reference(rng: &mut impl RngCore, length: usize) -> u32 {
    rng.gen_range(0..length as u32) | (rng.next_u32() & SIGN)
}

/// Buckets of these sizes; `pick` gives a number and a sign.
fn buckets(sizes: &[usize], mut pick: impl FnMut() -> u32) -> Buckets {
    sizes.iter().map(|&size| (0..size).map(|_| pick()).collect()).collect()
}

fn named<A: CurvePoint>(table: &[A], reference: u32) -> A::Group {
    let point = table[(reference & !SIGN) as usize].into_group();
    if reference & SIGN == 0 { point } else { -point }
}

fn expected<A: CurvePoint>(table: &[A], buckets: &Buckets) -> Vec<A::Group> {
    let sum = |own: &Vec<u32>| own.iter().map(|&reference| named(table, reference)).sum();
    buckets.iter().map(sum).collect()
}

/// The sums of `buckets`, then those with `more` added, by `balance`; a bound on how many there are
/// that is too large by `spare`.
fn check<A: CurvePoint>(
    (rig, accumulator): (&Rig, &Accumulator),
    (way, balance): (&str, Balance),
    table: &[A],
    [buckets, more]: [&Buckets; 2],
    spare: u32,
) {
    let count = buckets.len();
    let points = points::room::<A>(rig, table.len());
    let (points, first) = points::numbered::<A>(&points, table.len());
    points::write(rig, points, table);
    let out = points::room::<A>(rig, count);
    let (out, _) = points::numbered::<A>(&out, count);
    let mut sums = vec![A::Group::default(); count];
    for (onto, part) in [(false, buckets), (true, more)] {
        let mut all: Vec<u32> = part.iter().flatten().map(|reference| reference + first).collect();
        let mut starts = vec![0];
        starts.extend(part.iter().scan(0, |end, own| {
            *end += own.len() as u32;
            Some(*end)
        }));
        // What follows the last reference must not matter either.
        let digits = all.len() as u32 + spare;
        all.resize(digits as usize, u32::MAX);
        let shape =
            Shape { group: A::GROUP, digits, buckets: count as u32, onto, xyzz: false, balance };
        let (references, starts) = (rig.put(&all), rig.put(&starts));
        let sorted = Sorted { references: references.all(), starts: starts.all() };
        // What the workspace holds must not matter.
        let bytes = accumulator.bytes(&shape) as usize;
        let workspace = rig.put(&vec![0xee_u8; bytes]);
        accumulator.run(rig.stream(), &shape, sorted, out, workspace.all()).unwrap();
        sums.iter_mut().zip(expected(table, part)).for_each(|(sum, new)| *sum += new);
        let compare = |found: &[A], what| {
            for (b, (found, sum)) in found.iter().zip(&sums).enumerate() {
                let size = part[b].len();
                assert_eq!(*found, sum.into_affine(), "{way}, {what}: bucket {b} of {size}");
            }
        };
        compare(&points::read(rig, out), if onto { "onto" } else { "alone" });
        if !onto {
            let shape = Shape { xyzz: true, ..shape };
            let wide = rig.put(&vec![0xee_u8; count * shape.sum_bytes()]);
            let workspace = rig.put(&vec![0xee_u8; accumulator.bytes(&shape) as usize]);
            accumulator.run(rig.stream(), &shape, sorted, wide.all(), workspace.all()).unwrap();
            compare(&points::read_xyzz(rig, wide.all()), "XYZZ");
        }
    }
}

/// Different points, infinity, and a few that repeat.
fn random_table<A: CurvePoint>(rng: &mut impl Rng) -> Vec<A> {
    let mut table: Vec<A> = (0..40).map(|_| A::Group::rand(rng).into_affine()).collect();
    table.push(A::zero());
    table.extend_from_within(..3);
    table.push((-table[5].into_group()).into_affine());
    table
}

/// Infinity and 1, 2 and 3 times a point: sums of any of them are equal, opposite and infinity all
/// the time, at every level.
fn small_table<A: CurvePoint>() -> Vec<A> {
    let mut table = vec![A::zero(), A::generator()];
    table.push((table[1] + table[1]).into_affine());
    table.push((table[1] + table[2]).into_affine());
    table
}

/// What the sizes of buckets may be.
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
            for (table, way) in tables.iter().zip([WAYS[i % 6], WAYS[(i + 1) % 6]]) {
                let mut pick = || reference(&mut rng, table.len());
                let first = buckets(sizes, &mut pick);
                let mut turned = sizes.clone();
                turned.rotate_left(sizes.len() / 3);
                let more = buckets(&turned, &mut pick);
                check((rig, &accumulator), way, table, [&first, &more], i as u32 * 10);
            }
        }
    });
}

/// Buckets just below, at and above what a cell and a piece have, alone and beside each other,
/// among many small ones; one that has nearly all.
fn large_buckets_are_cut<A: CurvePoint>() {
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
        for sizes in [many, hot, vec![32; 40], vec![33; 70], vec![100]] {
            for table in [random_table::<A>(&mut rng), small_table()] {
                let own = buckets(&sizes, || reference(&mut rng, table.len()));
                let more = buckets(&vec![0; sizes.len()], || 0);
                check((rig, &accumulator), WAYS[4], &table, [&own, &more], 100);
            }
        }
    });
}

/// What would have kernels write where they must not is refused.
#[test]
fn spans_that_do_not_fit_are_refused() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let shape = Shape {
            group: Group::G1,
            digits: 10,
            buckets: 4,
            onto: true,
            xyzz: false,
            balance: Balance::of(Group::G1, 10),
        };
        let (references, starts) = (rig.put(&[0_u32; 10]), rig.put(&[0_u32; 5]));
        let out = points::room::<G1Affine>(rig, 5);
        let (out, _) = points::numbered::<G1Affine>(&out, 5);
        let part = |points: std::ops::Range<usize>| {
            out.part(points.start * 96, points.len() * 96).unwrap()
        };
        let workspace = rig.room::<u8>(accumulator.bytes(&shape) as usize);
        let room = workspace.all::<u8>();
        let run = |digits, bounds, out, room| {
            let sorted = Sorted {
                references: references.all().part(0, digits).unwrap(),
                starts: starts.all().part(0, bounds).unwrap(),
            };
            accumulator.run(rig.stream(), &shape, sorted, out, room)
        };
        run(10, 5, part(1..5), room).unwrap();
        let shifted = out.part(16, 4 * 96).unwrap();
        for (digits, bounds, out, room) in [
            (9, 5, part(0..4), room),
            (10, 4, part(0..4), room),
            (10, 5, part(0..3), room),
            (10, 5, shifted, room),
            (10, 5, part(0..4), room.part(0, room.len() / 2).unwrap()),
        ] {
            let refused = run(digits, bounds, out, room);
            assert!(matches!(refused, Err(Fault::Kernel { .. })), "{refused:?}");
        }
        // What cannot be: XYZZ sums that are added onto, and half the room for others.
        let sorted = Sorted { references: references.all(), starts: starts.all() };
        for onto in [false, true] {
            let shape = Shape { onto, xyzz: true, ..shape };
            let span = if onto { out } else { part(0..4) };
            let refused = accumulator.run(rig.stream(), &shape, sorted, span, room);
            assert!(matches!(refused, Err(Fault::Kernel { .. })), "{refused:?}");
        }
        rig.stream().synchronize().unwrap();
    });
}

/// Both methods and both together give the same sums, of the same buckets.
fn all_ways<A: CurvePoint>() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<A>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let first = buckets(&[0, 40, 1, 0, 2, 97, 3, 33, 1, 0, 64, 5], &mut pick);
        let more = buckets(&[2, 0, 1, 0, 9, 0, 0, 31, 40, 1, 0, 5], &mut pick);
        for way in WAYS {
            check((rig, &accumulator), way, &table, [&first, &more], 0);
        }
    });
}

/// Every pair, then every pair of pairs, is equal, opposite, or meets infinity.
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
        for way in WAYS {
            check((rig, &accumulator), way, &table, [&quads.to_vec(), &quads.to_vec()], 0);
        }
    });
}

/// More shares than two rounds of warps join, all of one bucket; and of buckets of about a warp.
#[test]
fn runs_are_joined_over_many_warps() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let none = buckets(&[0; 4], &mut pick);
        let hot = buckets(&[3, 1500, 0, 40], &mut pick);
        check((rig, &accumulator), WAYS[1], &table, [&hot, &none], 0);
        let even = buckets(&[33; 40], &mut pick);
        check((rig, &accumulator), WAYS[1], &table, [&even, &buckets(&[0; 40], &mut pick)], 0);
    });
}

/// One bucket of so many references, in single shares, among small ones.
pub fn one_hot_bucket<A: CurvePoint>(rig: &Rig, accumulator: &Accumulator, size: usize) {
    let mut rng = rng();
    let table = random_table::<A>(&mut rng);
    let mut pick = || reference(&mut rng, table.len());
    let hot = buckets(&[3, size, 0, 40], &mut pick);
    let none = buckets(&[0; 4], &mut pick);
    check((rig, accumulator), WAYS[1], &table, [&hot, &none], 0);
}

/// Few buckets among many: more tiles than one look of the scan, and tiles that end where they do.
#[test]
fn buckets_far_apart_are_found() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        for (i, count) in [2047, 2048, 2049, 300_000].into_iter().enumerate() {
            let mut sizes = vec![0; count];
            for (at, size) in [(0, 3), (count / 3, 1), (count / 2, 70), (count - 1, 6)] {
                sizes[at] = size;
            }
            let mut pick = || reference(&mut rng, table.len());
            let first = buckets(&sizes, &mut pick);
            sizes.rotate_right(1);
            let more = buckets(&sizes, &mut pick);
            check((rig, &accumulator), WAYS[3 - i], &table, [&first, &more], 1000);
        }
    });
}

/// Windows of buckets with many items, with few, and with none.
#[test]
fn items_are_listed_however_far_apart_their_buckets_are() {
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
        for way in [WAYS[0], WAYS[2], WAYS[3]] {
            check((rig, &accumulator), way, &table, [&first, &more], 3);
        }
    });
}

/// A window with much more items than others, and one whose items are of one bucket, are cut into
/// parts; what is beside them is not.
#[test]
fn large_windows_are_cut() {
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
        for way in [WAYS[0], WAYS[2], WAYS[3]] {
            check((rig, &accumulator), way, &table, [&first, &more], 7);
        }
    });
}

/// Enough for all warps of a block to take part.
#[test]
fn many_additions_are_shared_out() {
    each_seed(|rig| {
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let sizes: Vec<_> = (0..300).map(|_| pick() as usize % 220).collect();
        let first = buckets(&sizes, &mut pick);
        let way = ("both", way(1000, 4, 0, 0));
        check((rig, &accumulator), way, &table, [&first, &buckets(&sizes, &mut pick)], 5);
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
    g1_buckets_of_all_sizes_are_arkworks, all_sizes, G1Affine;
    g2_buckets_of_all_sizes_are_arkworks, all_sizes, G2Affine;
    g1_large_buckets_are_cut, large_buckets_are_cut, G1Affine;
    g2_large_buckets_are_cut, large_buckets_are_cut, G2Affine;
    g1_all_ways_agree, all_ways, G1Affine;
    g2_all_ways_agree, all_ways, G2Affine;
    g1_opposites_meet_at_every_level, opposites_at_every_level, G1Affine;
    g2_opposites_meet_at_every_level, opposites_at_every_level, G2Affine;
}
