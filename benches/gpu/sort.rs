//! Recoding of scalars and sorting of references by bucket: `kernels/msm/sort.cu`. All references
//! are compared with the host's digits, by a hash that does not depend on their order.

use ark_bls12_381::Fr;
use ark_ff::{BigInt, Field, PrimeField};
use capstan::{
    device::DeviceLease,
    msm::{
        BasesLocation, Recoding,
        references::SortedReferences,
        sort::{SortCapacity, SortPath, SortPlan, SortShape, Sorter},
    },
};
use rayon::prelude::*;

use crate::{
    digits::{SignedDigit, bucket, digits, radix},
    record::{RateFigure, Record},
    rig::{BenchRig, Random},
};

/// Runs per measurement of small sorts, so that their launches overlap with their execution.
const RUNS_SMALL: usize = 20;
/// The largest distance for which 255 tables have 31-bit references.
const TABLES: BasesLocation = BasesLocation { first: 0, stride: 1 << 23 };
const SIGN: u32 = 1 << 31;

/// How scalars are recoded.
#[derive(Debug, Clone, Copy)]
enum SortRecoding {
    /// Bits per window, and number of bucket sets.
    Fixed(u32, u32),
    /// Bits per window.
    Sliding(u32),
    /// Number of digits.
    Radix(u32),
}
use SortRecoding::{Fixed, Radix, Sliding};

impl SortRecoding {
    fn windows(self) -> Recoding {
        let windows = match self {
            Fixed(bits, sets) => Recoding::fixed(bits, sets, 64),
            Sliding(bits) => Recoding::sliding(bits),
            Radix(count) => radix(count),
        };
        windows.expect("windows that cover scalars")
    }
}

/// log2 of n, recoding, number of vectors.
type Size = (u32, SortRecoding, u32);
/// With tables for one bucket set, with fewer tables, batches; then sliding windows and radices.
const SIZES: [Size; 24] = [
    (10, Fixed(8, 1), 1),
    (10, Fixed(10, 1), 1),
    (12, Fixed(13, 1), 1),
    (14, Fixed(15, 1), 1),
    (16, Fixed(16, 1), 1),
    (18, Fixed(17, 1), 1),
    (20, Fixed(20, 1), 1),
    (22, Fixed(22, 1), 1),
    (24, Fixed(22, 1), 1),
    (24, Fixed(24, 1), 1),
    (16, Fixed(13, 20), 1),
    (20, Fixed(16, 16), 1),
    (10, Fixed(8, 1), 1000),
    (10, Fixed(8, 32), 1000),
    (12, Fixed(10, 1), 256),
    (16, Fixed(15, 1), 16),
    (10, Sliding(11), 1),
    (16, Sliding(17), 1),
    (18, Sliding(18), 1),
    (20, Sliding(20), 1),
    (20, Sliding(21), 1),
    (10, Sliding(11), 1000),
    (22, Radix(12), 1),
    (24, Radix(11), 1),
];
const SIZES_QUICK: [Size; 5] = [
    (7, Fixed(8, 1), 1),
    (10, Fixed(10, 3), 1),
    (6, Fixed(8, 1), 9),
    (7, Sliding(9), 1),
    (8, Radix(26), 1),
];

/// A distribution of scalars: its name, and a function that returns a scalar.
type Distribution = (&'static str, fn(&mut Random, &Recoding) -> Fr);
const UNIFORM: Distribution = ("uniform", |random, _| uniform(random));
const SKEWED: [Distribution; 6] = [
    ("one_bucket", |_, windows| one_bucket(windows)),
    ("equal", |_, _| -Fr::from(7) / Fr::from(11)),
    ("mostly_equal", |random, windows| match random.below(10) {
        0 => uniform(random),
        _ => one_bucket(windows),
    }),
    ("sparse90", |random, _| match random.below(20) {
        0..9 => Fr::from(0),
        9..18 => Fr::from(1),
        _ => uniform(random),
    }),
    ("zeros", |_, _| Fr::from(0)),
    ("64_bits", |random, _| Fr::from(random.next())),
];

fn uniform(random: &mut Random) -> Fr {
    loop {
        let mut limbs: [u64; 4] = std::array::from_fn(|_| random.next());
        limbs[3] >>= 1;
        if let Some(scalar) = Fr::from_bigint(BigInt(limbs)) {
            return scalar;
        }
    }
}

/// A scalar whose digits are all 1.
fn one_bucket(windows: &Recoding) -> Fr {
    let power = |bit: u32| Fr::from(2).pow([u64::from(bit)]);
    match windows {
        Recoding::Fixed(fixed) => (0..fixed.count).map(|j| power(fixed.offset(j))).sum(),
        Recoding::Radix(own) => {
            (0..own.count).map(|j| Fr::from(own.radix()).pow([u64::from(j)])).sum()
        }
        Recoding::Sliding(own) => (0..253).step_by(own.bits as usize).map(power).sum(),
    }
}

/// A sort's input and output on the device.
struct SortJob {
    layout: SortPlan,
    scalars: Vec<Fr>,
    given: DeviceLease,
    references: DeviceLease,
    starts: DeviceLease,
}

impl SortJob {
    fn new(rig: &BenchRig, layout: SortPlan, (_, scalar): Distribution) -> Self {
        let shape = layout.shape;
        let count = shape.n as usize * shape.vectors as usize;
        const GRAIN: usize = 1 << 12;
        let part = |first: usize| {
            let mut random = Random(first as u64);
            let make = |_| scalar(&mut random, &shape.windows);
            (first..count.min(first + GRAIN)).map(make).collect::<Vec<_>>()
        };
        let firsts: Vec<_> = (0..count).step_by(GRAIN).collect();
        let scalars: Vec<_> = firsts.into_par_iter().flat_map_iter(part).collect();
        let words: Vec<[u64; 4]> =
            scalars.par_iter().map(|scalar| scalar.into_bigint().0).collect();
        Self {
            layout,
            scalars,
            given: rig.upload_new(&words),
            references: rig.lease::<u32>(shape.digits_max() as usize),
            starts: rig.lease::<u32>(shape.buckets() as usize + 1),
        }
    }

    /// Times the sort by `layout`, which has the job's shape.
    fn time(
        &self,
        rig: &BenchRig,
        sorter: &Sorter,
        layout: &SortPlan,
    ) -> (Vec<std::time::Duration>, usize) {
        let work = rig.lease::<u8>(layout.bytes() as usize);
        let runs = if rig.quick || self.scalars.len() > 1 << 20 { 1 } else { RUNS_SMALL };
        let sorted =
            SortedReferences { references: self.references.all(), starts: self.starts.all() };
        let times = rig.times(|| {
            (0..runs).try_for_each(|_| {
                let given = self.given.all();
                sorter.run(&rig.stream, layout, given, TABLES, work.all(), sorted)
            })
        });
        (times, runs)
    }

    /// The number of digits, and a sum of hashes of (bucket, reference).
    fn expected(&self) -> (u64, u64) {
        let SortShape { windows, n, .. } = self.layout.shape;
        let hashes = |(at, scalar): (usize, &Fr)| {
            let (vector, i) = (at as u32 / n, at as u32 % n);
            let digits = digits(&windows, *scalar);
            let one = |&SignedDigit { table, set, value }: &SignedDigit| {
                let set = vector * windows.sets() + set;
                let point = TABLES.first + table * TABLES.stride + i;
                let sign = if value < 0 { SIGN } else { 0 };
                hash(set * windows.buckets() + bucket(&windows, value), point | sign)
            };
            (digits.len() as u64, digits.iter().map(one).fold(0, u64::wrapping_add))
        };
        self.scalars.par_iter().enumerate().map(hashes).reduce(|| (0, 0), both)
    }

    fn found(&self, rig: &BenchRig) -> (u64, u64) {
        let starts = rig.get::<u32>(self.starts.all());
        let references = rig.get::<u32>(self.references.all());
        let bucket = |q: usize| {
            let held = &references[starts[q] as usize..starts[q + 1] as usize];
            let hashes = held.iter().map(|&reference| hash(q as u32, reference));
            (held.len() as u64, hashes.fold(0, u64::wrapping_add))
        };
        (0..starts.len() - 1).into_par_iter().map(bucket).reduce(|| (0, 0), both)
    }
}

fn both(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1.wrapping_add(b.1))
}

fn hash(bucket: u32, reference: u32) -> u64 {
    Random(u64::from(bucket) << 32 | u64::from(reference)).next()
}

/// Measures every size by the chosen layout and by similar ones, and with skewed scalars.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let sorter = Sorter::load(rig.gpu.context()).unwrap_or_else(|reason| panic!("{reason}"));
    // By default all of `SIZES`.
    let all: Vec<u32> = (0..=26).collect();
    let picked = rig.sizes(&all, &all);
    let sizes = rig.size(&SIZES[..], &SIZES_QUICK).iter();
    for &size in sizes.filter(|size| picked.contains(&size.0)) {
        let (lg_n, recoding, vectors) = size;
        let shape = SortShape::new(recoding.windows(), 1 << lg_n, vectors).expect("a shape");
        let capacity = SortCapacity::of(&rig.gpu.identity().limits);
        let usual = SortPlan::of(shape, capacity).expect("a layout");
        let job = SortJob::new(rig, usual, UNIFORM);
        let expected = job.expected();
        let measured = |job: &SortJob, layout: &SortPlan, expected: (u64, u64), mode| {
            let figure = figure(rig, &sorter, job, layout, size, mode);
            assert_eq!(job.found(rig), expected, "{mode}: {layout:?}");
            figure
        };
        record.record_rate(&measured(&job, &usual, expected, UNIFORM.0));
        for layout in
            others(&usual).into_iter().filter_map(|path| SortPlan::with_path(shape, capacity, path))
        {
            record.print_rate(&measured(&job, &layout, expected, UNIFORM.0));
        }
        drop(job);
        for distribution in SKEWED {
            let job = SortJob::new(rig, usual, distribution);
            record.print_rate(&measured(&job, &usual, job.expected(), distribution.0));
        }
    }
}

fn figure<'a>(
    rig: &BenchRig,
    sorter: &Sorter,
    job: &SortJob,
    layout: &SortPlan,
    (lg_n, recoding, vectors): Size,
    mode: &'a str,
) -> RateFigure<'a> {
    let (mut times, runs) = job.time(rig, sorter, layout);
    times.sort();
    let median_ms = times[times.len() / 2].as_secs_f64() * 1e3 / runs as f64;
    let how = format!("{median_ms:.4} ms: {vectors} x 2^{lg_n}, {recoding:?}, {:?}", layout.path);
    let count = (job.scalars.len() * runs) as u64;
    RateFigure { op: "msm_sort", mode, count, times, unit: "G/s", details: how }
}

/// Alternatives to the chosen path.
fn others(usual: &SortPlan) -> Vec<SortPath> {
    match usual.path {
        SortPath::Direct { groups } => {
            let direct = [1, 2, 4, 8, 16].map(|groups| SortPath::Direct { groups });
            let mut found: Vec<_> =
                direct.into_iter().filter(|path| *path != SortPath::Direct { groups }).collect();
            found.push(SortPath::Bins { low_bits: 6, tile_scalars: 128 });
            found
        }
        SortPath::Bins { low_bits, tile_scalars } => {
            let bins = |low_bits, tile_scalars| SortPath::Bins { low_bits, tile_scalars };
            vec![
                bins(low_bits.saturating_sub(1), tile_scalars),
                bins(low_bits + 1, tile_scalars),
                bins(low_bits, tile_scalars / 2),
                bins(low_bits, tile_scalars / 4 * 3),
                bins(low_bits, tile_scalars / 4 * 5),
                bins(low_bits, tile_scalars / 8 * 11),
            ]
        }
    }
}
