//! Bucket accumulation (`src/gpu/msm/accumulate`) of sorted references to tables of an MSM's size.

use std::time::Duration;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use bytemuck::{Pod, cast_slice};
use capstan::{
    curve::Group as Name,
    device::{BlockShape, DevicePtr, DeviceSlice, Kernel},
    msm::{
        AlignedPoints,
        accumulate::{AccumulateShape, AccumulateTuning, Accumulator},
        references::SortedReferences,
    },
};

use crate::{
    points::{BenchGroup, KnownPoints},
    record::{RateFigure, Record},
    rig::{BenchRig, Random},
};

/// The top bit of a reference: the point is subtracted.
const SIGN: u32 = 1 << 31;
/// Bits that the windows of a scalar cover, including one for the carry.
const SCALAR_BITS: u32 = 255;
/// Number of buckets that are compared with arkworks.
const SAMPLES: usize = 64;
/// The only bucket with digits in the mode `one_bucket`.
const HOT: usize = 5;

/// An MSM's size and windows. If these do not make 255 bits, the numbers of digits and buckets are
/// those of sliding windows.
#[derive(Clone, Copy)]
struct Case {
    n: usize,
    /// Windows of a scalar.
    windows: u32,
    /// Bits of the widest window.
    bits: u32,
}

const fn case(n: usize, windows: u32, bits: u32) -> Case {
    Case { n, windows, bits }
}

const G1_CASES: [Case; 12] = [
    case(1 << 10, 26, 10),
    case(1 << 10, 22, 12),
    case(1 << 12, 20, 13),
    case(1 << 14, 17, 15),
    case(1 << 16, 16, 16),
    case(1 << 18, 15, 17),
    case(1 << 20, 13, 20),
    case(1 << 20, 13, 19),
    case(1 << 20, 12, 20),
    case(1 << 22, 12, 22),
    case(1 << 24, 12, 22),
    case(1 << 24, 11, 24),
];
const G2_CASES: [Case; 5] = [
    case(1 << 10, 26, 10),
    case(1 << 16, 16, 16),
    case(1 << 18, 15, 17),
    case(1 << 20, 13, 20),
    case(1 << 22, 12, 22),
];
const QUICK: [Case; 2] = [case(1 << 5, 26, 10), case(1 << 8, 32, 8)];

/// Values of `AccumulateTuning::level_additions_min` to compare: the fewest additions of a level.
const LEVEL_MINS: [u32; 9] =
    [u32::MAX, 1 << 20, 1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1];
/// More values of `AccumulateTuning::level_additions_min`, for quick runs.
const QUICK_LEVEL_MINS: [u32; 2] = [100, 1];
/// Sums are also measured in XYZZ coordinates up to this number of buckets.
const XYZZ_BUCKETS_MAX: usize = 1 << 17;
/// Values of `AccumulateTuning::share_references_min` to compare: the fewest references of a share.
const SHARE_MINS: [u32; 4] = [1, 2, 8, 16];

/// `lg=16,18` selects sizes, `groups=g1` groups.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let accumulator = Accumulator::load(rig.gpu.context()).expect("kernels");
    let groups = rig.argument("groups").unwrap_or_else(|| "g1,g2".to_owned());
    let only = rig.argument("lg");
    let picked = |case: &&Case| {
        let lg = case.n.ilog2().to_string();
        only.as_ref().is_none_or(|only| only.split(',').any(|one| one == lg))
    };
    if groups.contains("g1") {
        let points = KnownPoints::<G1Projective>::new(rig.size(1 << 20, 1 << 8));
        let cases = rig.size(&G1_CASES[..], &QUICK).iter().filter(picked);
        cases.for_each(|case| sizes(rig, record, &accumulator, &points, Name::G1, *case));
    }
    if groups.contains("g2") {
        let points = KnownPoints::<G2Projective>::new(rig.size(1 << 19, 1 << 8));
        let cases = rig.size(&G2_CASES[..], &QUICK[..1]).iter().filter(picked);
        cases.for_each(|case| sizes(rig, record, &accumulator, &points, Name::G2, *case));
    }
}

/// Measures one size with all strategies, and with all digits in one bucket.
fn sizes<G: BenchGroup>(
    rig: &BenchRig,
    record: &mut Record,
    accumulator: &Accumulator,
    points: &KnownPoints<G>,
    group: Name,
    case: Case,
) {
    let Case { n, windows, bits } = case;
    let length = n * windows as usize;
    // One point more, to align the first point.
    let table = rig.lease::<G::Words>(length + 1);
    let AlignedPoints { span: table, first } =
        AlignedPoints::of(table.all(), group).expect("inside");
    points.fill(rig, table.slice(0, length * size_of::<G::Words>()).expect("inside"));
    let best = AccumulateTuning::of(group, length as u32);
    for hot in [false, true] {
        let bench = AccumulateBench { rig, accumulator, points, group, case, first, hot };
        let digits = BenchDigits::new(&bench);
        let mut ways = vec![best];
        if !hot {
            // A level with more additions than there are references never runs.
            let few = |least: &u32| *least == u32::MAX || *least as usize <= length / 2;
            let ways_here = LEVEL_MINS.iter().chain(rig.size(&[][..], &QUICK_LEVEL_MINS)).copied();
            let levels = |level_min| AccumulateTuning {
                level_additions_min: level_min,
                whole_bucket_references_max: 0,
                team_elements_max: 0,
                ..best
            };
            for balance in ways_here.filter(few).map(levels) {
                ways.push(balance);
                if bits <= 18 && balance.level_additions_min < u32::MAX {
                    ways.extend([4, 8].map(|team_left| AccumulateTuning {
                        team_elements_max: team_left,
                        ..balance
                    }));
                }
            }
            if n <= 1 << 16 {
                let alone = AccumulateTuning {
                    level_additions_min: u32::MAX,
                    share_references_min: 4,
                    whole_bucket_references_max: 0,
                    team_elements_max: 0,
                };
                ways.extend(SHARE_MINS.map(|share_min| AccumulateTuning {
                    share_references_min: share_min,
                    ..alone
                }));
                ways.push(AccumulateTuning { whole_bucket_references_max: u32::MAX, ..alone });
            }
        }
        for balance in ways {
            for figure in bench.figures(&digits, balance) {
                record.print_rate(&figure);
            }
        }
        if group == Name::G1 && !hot {
            record.print_rate(&bench.unbalanced(&digits, table));
        }
    }
    println!("  ({windows} windows of {bits} bits at most)");
}

/// Parameters: out, table, references, starts, buckets, reference number of the first point.
pub type Unbalanced =
    Kernel<(DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, DevicePtr<u32>, u32, u32)>;

/// A kernel that sums each bucket of G1 in XYZZ by one thread, two blocks per multiprocessor.
pub fn unbalanced(rig: &BenchRig) -> Unbalanced {
    let block = BlockShape { threads: 128, shared_bytes: 128 * 96 };
    rig.kernel("bench/curve", "g1_xyzz_unbalanced", block)
}

/// The median of some times.
fn milliseconds(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort();
    format!("{:.4}", sorted[sorted.len() / 2].as_secs_f64() * 1e3)
}

struct AccumulateBench<'a, G: BenchGroup> {
    rig: &'a BenchRig,
    accumulator: &'a Accumulator,
    points: &'a KnownPoints<G>,
    group: Name,
    case: Case,
    /// Reference number of the table's first point.
    first: u32,
    /// Whether all digits are in one bucket.
    hot: bool,
}

/// References sorted by bucket, and where each bucket starts.
struct BenchDigits {
    references: Vec<u32>,
    starts: Vec<u32>,
}

impl BenchDigits {
    fn new<G: BenchGroup>(bench: &AccumulateBench<'_, G>) -> Self {
        let Case { n, windows, bits } = bench.case;
        let (length, buckets) = (n * windows as usize, 1_usize << (bits - 1));
        let mut random = Random(17);
        let mut sizes = vec![0_u32; buckets];
        // Windows that are one bit narrower use the lower half of the buckets.
        let narrow = (windows * bits).saturating_sub(SCALAR_BITS).min(windows) as usize;
        for i in 0..length {
            let range = if i < n * narrow { buckets / 2 } else { buckets };
            sizes[if bench.hot { HOT } else { random.below(range) }] += 1;
        }
        let mut starts = vec![0];
        starts.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        let mut reference =
            || (random.below(length) as u32 + bench.first) | (random.next() as u32 & SIGN);
        Self { references: (0..length).map(|_| reference()).collect(), starts }
    }
}

impl<G: BenchGroup> AccumulateBench<'_, G> {
    /// Times of the whole stage, of its plan alone, and of the whole stage with sums in XYZZ.
    fn figures(&self, digits: &BenchDigits, balance: AccumulateTuning) -> Vec<RateFigure<'static>> {
        let rig = self.rig;
        let buckets = digits.starts.len() - 1;
        let shape = AccumulateShape {
            group: self.group,
            references_max: digits.references.len() as u32,
            buckets: buckets as u32,
            accumulate: false,
            xyzz: false,
            balance,
        };
        let references = rig.upload_new(&digits.references);
        let starts = rig.upload_new(&digits.starts);
        let sorted = SortedReferences { references: references.all(), starts: starts.all() };
        let out = rig.lease::<G::Words>(buckets);
        let workspace = rig.lease::<u8>(shape.bytes(&rig.gpu.identity().limits) as usize);
        let (out, span) = (out.all::<u8>(), workspace.all());
        let whole = rig.times(|| self.accumulator.run(&rig.stream, &shape, sorted, out, span));
        let plan =
            rig.times(|| self.accumulator.launch_listing(&rig.stream, &shape, sorted, out, span));
        self.check::<G::Words>(digits, out, G::from_affine_words);
        let mut figures = vec![
            self.figure("whole", whole, balance, workspace.bytes()),
            self.figure("plan", plan, balance, workspace.bytes()),
        ];
        if buckets <= XYZZ_BUCKETS_MAX {
            let shape = AccumulateShape { xyzz: true, ..shape };
            let out = rig.lease::<[G::Words; 2]>(buckets);
            let run = || self.accumulator.run(&rig.stream, &shape, sorted, out.all(), span);
            let times = rig.times(run);
            self.check::<[G::Words; 2]>(digits, out.all(), G::from_xyzz_words);
            figures.push(self.figure("XYZZ", times, balance, workspace.bytes()));
        }
        figures
    }

    /// The time with one thread per bucket, for comparison. Its sums are in XYZZ coordinates.
    fn unbalanced(&self, digits: &BenchDigits, table: DeviceSlice<'_, u8>) -> RateFigure<'static> {
        let (rig, Case { n, windows, .. }) = (self.rig, self.case);
        let kernel = unbalanced(rig);
        let buckets = digits.starts.len() - 1;
        let (references, starts) =
            (rig.upload_new(&digits.references), rig.upload_new(&digits.starts));
        let out = rig.lease::<[G::Words; 2]>(buckets);
        let (references, starts) = (references.all(), starts.all());
        let given = (out.all(), table, references, starts, buckets as u32, self.first);
        let times = rig.times(|| kernel.launch(&rig.stream, rig.blocks(2), given));
        self.check::<[G::Words; 2]>(digits, out.all(), G::from_xyzz_words);
        let how = format!("2^{} one thread per bucket, {} ms", n.ilog2(), milliseconds(&times));
        let count = n as u64 * u64::from(windows);
        RateFigure { op: "g1_accumulate", mode: "uniform", count, times, unit: "G/s", details: how }
    }

    fn figure(
        &self,
        part: &str,
        times: Vec<Duration>,
        balance: AccumulateTuning,
        bytes: u64,
    ) -> RateFigure<'static> {
        let Case { n, windows, .. } = self.case;
        let median_ms = milliseconds(&times);
        let AccumulateTuning {
            level_additions_min: level_min,
            share_references_min: share_min,
            whole_bucket_references_max: whole_digits,
            team_elements_max: team_left,
        } = balance;
        let level = if level_min == u32::MAX { "none".to_owned() } else { level_min.to_string() };
        let (lg_n, workspace_gb) = (n.ilog2(), bytes as f64 / 1e9);
        RateFigure {
            op: if self.group == Name::G1 { "g1_accumulate" } else { "g2_accumulate" },
            mode: if self.hot { "one_bucket" } else { "uniform" },
            count: n as u64 * u64::from(windows),
            times,
            unit: "G/s",
            details: format!(
                "2^{lg_n} {part} {median_ms} ms, levels of {level} or more, shares of {share_min}, \
                 whole up to {whole_digits}, teams of {team_left}, {workspace_gb:.2} GB"
            ),
        }
    }

    /// Compares some buckets with arkworks, including the first, the last and the hot one.
    fn check<T: Pod>(
        &self,
        digits: &BenchDigits,
        out: DeviceSlice<'_, u8>,
        point: impl Fn(&[u64]) -> G::Affine,
    ) {
        let mut random = Random(3);
        let out = out.cast::<T>().expect("points");
        for sample in 0..SAMPLES {
            let bucket = match sample {
                0 => 0,
                1 => out.len() - 1,
                2 => HOT,
                _ => random.below(out.len()),
            };
            let found = self.rig.get(out.slice(bucket, 1).expect("inside"));
            let found = point(cast_slice(&found));
            let [begin, end] = [0, 1].map(|i| digits.starts[bucket + i] as usize);
            let expected = self.sum(&digits.references[begin..end]);
            assert_eq!(found, expected.into_affine(), "bucket {bucket} of {} points", end - begin);
        }
    }

    /// The sum by discrete logarithms: there may be too many points to add.
    fn sum(&self, references: &[u32]) -> G {
        let (mut ones, mut steps) = (0_i64, 0_i64);
        for reference in references {
            let at = ((reference & !SIGN) - self.first) as usize % self.points.affine.len();
            let sign = if reference & SIGN == 0 { 1 } else { -1 };
            ones += sign;
            steps += sign * at as i64;
        }
        G::generator() * Fr::from(ones) + KnownPoints::<G>::step() * Fr::from(steps)
    }
}
