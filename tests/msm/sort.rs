//! Sorting of digits by bucket: `kernels/msm/sort.cu` against a sort on the host.

use ark_bls12_381::Fr;
use ark_ff::BigInt;
use capstan::{
    device::DeviceLimits,
    msm::{
        BITS_MAX, BITS_MIN, BasesLocation, FixedWindows, Recoding, SlidingWindows,
        references::SortedReferences,
        sort::{SortCapacity, SortPath, SortPlan, SortShape, Sorter},
    },
};

use crate::{
    digits::{SMALL_RADIX, SignedDigit, all_radices, bucket, digits},
    gpu::{KernelRig, each_seed},
    limits::PRESETS,
    repeat::some_of,
    scalars::{DISTRIBUTIONS, edges, of_digits, rng, uniform, words},
};

const SIGN: u32 = 1 << 31;
/// Initial content of buffers, which must not matter.
const DIRT: u32 = 0xeeee_eeee;
const TABLES: BasesLocation = BasesLocation { first: 12345, stride: 1 << 20 };

/// Bucket and reference of every digit, sorted.
fn expected(shape: &SortShape, scalars: &[Fr]) -> Vec<(u32, u32)> {
    let SortShape { windows, first_set, sets, n, .. } = *shape;
    let mut found = Vec::new();
    for (at, scalar) in scalars.iter().enumerate() {
        let (vector, i) = (at as u32 / n, at as u32 % n);
        for SignedDigit { table, set, value } in digits(&windows, *scalar) {
            if !(first_set..first_set + sets).contains(&set) {
                continue;
            }
            let first = (vector * sets + set - first_set) * windows.buckets();
            let point = TABLES.first + table * TABLES.stride + i;
            let sign = if value < 0 { SIGN } else { 0 };
            found.push((first + bucket(&windows, value), point | sign));
        }
    }
    found.sort_unstable();
    found
}

/// Sorts on the device and compares the start and the content of every bucket.
fn check(rig: &KernelRig, sorter: &Sorter, layout: &SortPlan, scalars: &[Fr], name: &str) {
    let shape = &layout.shape;
    let dirty = |bytes: u64| rig.upload(&vec![DIRT; bytes.div_ceil(4) as usize]);
    let (work, references) = (dirty(layout.bytes()), dirty(4 * shape.digits_max()));
    let starts = dirty(4 * (shape.buckets() + 1));
    let given = rig.upload(&words(scalars));
    let sorted = SortedReferences { references: references.all(), starts: starts.all() };
    // Odd sizes run twice: what the first run leaves must not matter to the second.
    for _ in 0..1 + shape.n % 2 {
        sorter.run(rig.stream(), layout, given.all(), TABLES, work.all(), sorted).unwrap();
    }
    let expected = expected(shape, scalars);
    let (starts, references) = (rig.download::<u32>(&starts), rig.download::<u32>(&references));
    let what = format!("{name}: {layout:?}");
    let mut at = 0;
    for (bucket, start) in starts.iter().enumerate() {
        at += expected[at..].iter().take_while(|(q, _)| (*q as usize) < bucket).count();
        assert_eq!(*start as usize, at, "{what}: bucket {bucket}");
    }
    assert_eq!(at, expected.len(), "{what}");
    let mut found = references[..at].to_vec();
    for ends in starts.windows(2) {
        found[ends[0] as usize..ends[1] as usize].sort_unstable();
    }
    let same = expected.iter().map(|(_, reference)| reference).eq(&found);
    assert!(same, "{what}: {found:x?} is not {expected:x?}");
}

/// The chosen layout, and layouts for every branch: few bins, one bin, one or more blocks a vector.
fn layouts(shape: SortShape, capacity: SortCapacity) -> Vec<SortPlan> {
    let lg_buckets = (shape.buckets() / u64::from(shape.vectors)).ilog2();
    let bins = |low_bits, tile_scalars| SortPath::Bins { low_bits, tile_scalars };
    let direct = |groups| SortPath::Direct { groups };
    // Every bin and group is a block, which is slow in emulation.
    let (cuts, groups) = if shape.vectors > 8 { (1, 2) } else { (4, 7) };
    let (few, one) = (lg_buckets.saturating_sub(cuts), (lg_buckets + 1).min(12));
    let paths = [bins(few, 160), bins(one, 33), direct(1), direct(groups)];
    let mut found: Vec<_> = SortPlan::of(shape, capacity).into_iter().collect();
    found.extend(paths.into_iter().filter_map(|path| SortPlan::with_path(shape, capacity, path)));
    found
}

fn check_shape(rig: &KernelRig, sorter: &Sorter, shape: SortShape, scalars: &[Fr], name: &str) {
    for layout in layouts(shape, SortCapacity::of(&rig.limits())) {
        check(rig, sorter, &layout, scalars, name);
    }
}

/// Fixed windows in `sets` bucket sets; sliding windows if `sets` is 0.
fn windows(bits: u32, sets: u32) -> Recoding {
    let windows = match sets {
        0 => Recoding::sliding(bits),
        _ => Recoding::fixed(bits, sets, 64),
    };
    windows.unwrap()
}

fn h200() -> SortCapacity {
    SortCapacity::of(&DeviceLimits::H200)
}

fn sorter(rig: &KernelRig) -> Sorter {
    Sorter::load(rig.stream().context()).unwrap()
}

#[test]
fn small_counts_are_sorted() {
    let counts = (0..=34).chain([63, 64, 65, 95, 96, 97, 127, 128, 129, 130]);
    let counts: Vec<u32> = counts.collect();
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        for (i, &n) in counts.iter().enumerate() {
            let scalars: Vec<Fr> = (0..n).map(|_| uniform(&mut rng)).collect();
            let windows = windows([4, 8, 11, 13, 14, 10][i % 6], [1, 0, 2, 4, 3][i % 5]);
            let shape = SortShape::new(windows, n, 1).unwrap();
            let all = layouts(shape, SortCapacity::of(&rig.limits()));
            for layout in [all[0], all[1 + i % (all.len() - 1)]] {
                check(rig, &sorter, &layout, &scalars, "uniform");
            }
        }
    });
}

#[test]
fn all_distributions_are_sorted() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        for (number, (name, scalar)) in DISTRIBUTIONS.into_iter().enumerate() {
            let scalars: Vec<Fr> = (0..500).map(|i| scalar(&mut rng, i)).collect();
            for windows in some_of([windows(10, 1), windows(11, 0)], 2, number) {
                check_shape(rig, &sorter, SortShape::new(windows, 500, 1).unwrap(), &scalars, name);
            }
        }
    });
}

#[test]
fn digits_of_a_small_radix_are_sorted() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        for (name, scalar) in some_of(DISTRIBUTIONS, 2, 0) {
            let scalars: Vec<Fr> = (0..400).map(|i| scalar(&mut rng, i)).collect();
            let shape = SortShape::new(Recoding::Radix(SMALL_RADIX), 400, 1).unwrap();
            check_shape(rig, &sorter, shape, &scalars, name);
        }
        let scalars = of_digits(&SMALL_RADIX, &mut rng, 3 * 210);
        let shape = SortShape::new(Recoding::Radix(SMALL_RADIX), 210, 3).unwrap();
        check_shape(rig, &sorter, shape, &scalars, "digits");
    });
}

/// Radices with up to millions of buckets, with few digits.
#[test]
fn digits_of_every_radix_are_sorted() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        for (case, radix) in all_radices().enumerate().filter(|(case, _)| rig.runs_case(*case)) {
            let mut scalars = edges();
            scalars.extend(of_digits(&radix, &mut rng, 2000));
            let shape = SortShape::new(Recoding::Radix(radix), scalars.len() as u32, 1).unwrap();
            let layout = SortPlan::of(shape, SortCapacity::of(&rig.limits())).unwrap();
            check(rig, &sorter, &layout, &scalars, &format!("case {case}"));
        }
    });
}

/// Bins of several tiles: at least 65536 digits in one bin and in one bucket.
#[test]
fn bins_of_several_tiles_are_sorted() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        let fixed = FixedWindows::new(13, 1, 20).unwrap();
        let offsets: Vec<u32> = (0..fixed.count).map(|j| fixed.offset(j)).collect();
        let apart: Vec<u32> = (0..253).step_by(14).collect();
        for (windows, low_bits, bits) in
            [(Recoding::Fixed(fixed), 7, offsets), (windows(14, 0), 12, apart)]
        {
            let n = 4097;
            let one_bucket = bits.iter().map(|&bit| Fr::from(BigInt::from(1_u64) << bit));
            let one_bucket: Fr = one_bucket.sum();
            let digits = digits(&windows, one_bucket);
            assert!(digits.len() > 16 && digits.iter().all(|digit| digit.value == 1));
            let uniform: Vec<Fr> = (0..n).map(|_| uniform(&mut rng)).collect();
            let mixed = (0..n).map(|i| if i % 3 == 0 { uniform[i] } else { one_bucket });
            let mixed: Vec<Fr> = mixed.collect();
            let shape = SortShape::new(windows, n as u32, 1).unwrap();
            let path = SortPath::Bins { low_bits, tile_scalars: 600 };
            let capacity = SortCapacity::of(&rig.limits());
            let layout = SortPlan::with_path(shape, capacity, path).unwrap();
            check(rig, &sorter, &layout, &uniform, "uniform");
            check(rig, &sorter, &layout, &mixed, "mixed");
            check(rig, &sorter, &layout, &vec![one_bucket; n], "one bucket");
        }
    });
}

#[test]
fn sizes_around_powers_of_two_are_sorted() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        for lg_n in 8..=12 {
            for n in [(1_u32 << lg_n) - 1, 1 << lg_n, (1 << lg_n) + 1] {
                let scalars: Vec<Fr> = (0..n).map(|_| uniform(&mut rng)).collect();
                let windows = windows(lg_n + 2, n & 1);
                let layout = SortPlan::of(
                    SortShape::new(windows, n, 1).unwrap(),
                    SortCapacity::of(&rig.limits()),
                )
                .unwrap();
                check(rig, &sorter, &layout, &scalars, "uniform");
            }
        }
    });
}

#[test]
fn vectors_and_sets_do_not_mix() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        let cases =
            [(3, 129, 9, 0), (3, 70, 8, 32), (3, 200, 12, 5), (100, 8, 6, 0), (100, 4, 5, 51)];
        for (vectors, n, bits, sets) in some_of(cases, 2, 0) {
            let shape = SortShape::new(windows(bits, sets), n, vectors).unwrap();
            let scalars: Vec<Fr> = (0..n * vectors).map(|_| uniform(&mut rng)).collect();
            check_shape(rig, &sorter, shape, &scalars, "uniform");
        }
    });
}

#[test]
fn a_pass_sorts_its_sets_only() {
    each_seed(|rig| {
        let (mut rng, sorter) = (rng(), sorter(rig));
        let scalars: Vec<Fr> = (0..2 * 90).map(|_| uniform(&mut rng)).collect();
        for (sets, first, count) in [(7, 0, 3), (7, 3, 4), (7, 6, 1), (26, 11, 9)] {
            let windows = Recoding::fixed(10, sets, 64).unwrap();
            let shape = SortShape::new(windows, 90, 2).unwrap().with_sets(first, count).unwrap();
            check_shape(rig, &sorter, shape, &scalars, "uniform");
        }
    });
}

#[test]
fn invalid_and_too_large_shapes_are_refused() {
    let windows = Recoding::fixed(16, 16, 1).unwrap();
    assert_eq!(SortShape::new(windows, 5, 0), None);
    assert_eq!(SortShape::new(windows, (1 << 26) + 1, 1), None);
    let shape = SortShape::new(windows, 5, 1).unwrap();
    assert_eq!(shape.with_sets(9, 8), None);
    assert_eq!(shape.with_sets(u32::MAX, 2), None);
    assert_eq!(shape.with_sets(3, 0), None);
    // 2^31 digits.
    assert_eq!(SortPlan::of(SortShape::new(windows, 1 << 23, 16).unwrap(), h200()), None);
    assert!(SortPlan::of(SortShape::new(windows, 1 << 23, 15).unwrap(), h200()).is_some());
    let tile = |tile_scalars| SortPath::Bins { low_bits: 11, tile_scalars };
    assert_eq!(SortPlan::with_path(shape, h200(), tile(0)), None);
    assert_eq!(SortPlan::with_path(shape, h200(), tile(2000)), None);
    assert_eq!(SortPlan::with_path(shape, h200(), SortPath::Direct { groups: 0 }), None);
    assert_eq!(SortPlan::with_path(shape, h200(), SortPath::Direct { groups: 127 }), None);
    assert!(SortPlan::with_path(shape, h200(), SortPath::Direct { groups: 128 }).is_some());
}

/// On every device: a bin has at most 2^11 or 2^12 buckets, a vector at most 2^12 bins.
#[test]
fn shapes_within_the_limits_have_a_layout() {
    for (device, limits) in PRESETS {
        let capacity = SortCapacity::of(&limits);
        let lg_most = if device == "small" { 23 } else { 24 };
        for bits in BITS_MIN..=BITS_MAX {
            for tables in (1..=64).chain([SlidingWindows::TABLES]) {
                let all = (1..=64).filter_map(|sets| match tables {
                    SlidingWindows::TABLES => Recoding::sliding(bits).filter(|_| sets == 1),
                    _ => Recoding::fixed(bits, sets, tables),
                });
                for windows in all.filter(|windows| windows.tables() == tables) {
                    check_every_size(windows, capacity, 1 << lg_most);
                }
            }
        }
    }
}

fn check_every_size(windows: Recoding, capacity: SortCapacity, buckets_max: u64) {
    for lg_n in [0, 4, 10, 13, 16, 20, 24, 26] {
        let shape = SortShape::new(windows, 1 << lg_n, 1).unwrap();
        let small = shape.buckets() <= buckets_max && shape.digits_max() < 1 << 31;
        assert_eq!(SortPlan::of(shape, capacity).is_some(), small, "{capacity:?} {shape:?}");
    }
    let batch = SortShape::new(windows, 1 << 10, 1000).unwrap();
    let small = batch.buckets() <= 1 << 24;
    assert!(SortPlan::of(batch, capacity).is_some() || !small, "{capacity:?} {batch:?}");
}

#[test]
fn short_spans_are_refused() {
    each_seed(|rig| {
        let sorter = sorter(rig);
        let shape = SortShape::new(Recoding::fixed(8, 1, 32).unwrap(), 4, 1).unwrap();
        let layout = SortPlan::with_path(
            shape,
            SortCapacity::of(&rig.limits()),
            SortPath::Bins { low_bits: 3, tile_scalars: 32 },
        )
        .unwrap();
        let sizes = [4 * 32, layout.bytes(), 4 * shape.digits_max(), 4 * (shape.buckets() + 1)];
        for short in 0..sizes.len() {
            let mut leases = sizes.iter().enumerate().map(|(i, bytes)| {
                rig.lease::<u8>(*bytes as usize - if i == short { 4 } else { 0 })
            });
            let [scalars, work, references, starts] =
                std::array::from_fn(|_| leases.next().unwrap());
            let sorted = SortedReferences { references: references.all(), starts: starts.all() };
            let (given, work) = (scalars.all(), work.all());
            assert!(sorter.run(rig.stream(), &layout, given, TABLES, work, sorted).is_err());
        }
    });
}
