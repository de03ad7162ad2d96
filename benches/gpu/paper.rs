//! The gain of load balancing and of tables, for the sizes of the method's paper: times of whole
//! MSMs in G1 with and without tables, and their times if one thread summed each bucket. Those sums
//! use the MSM's own sorted references. Prints a table for benches/RESULTS.md. `lg=19,20` selects
//! sizes.

use ark_bls12_381::{Fr, G1Projective, g1};
use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, Field, PrimeField};
use capstan::{
    curve::Group as Name,
    device::DeviceLease,
    msm::{AlignedPoints, BasesLocation, MsmPass, MsmPassMemory, MsmPassPlan, MsmSize, Recoding},
};

use crate::{
    accumulate::{Unbalanced, unbalanced},
    msm::{MsmBench, own, scalars, uniform},
    points::{BenchGroup, KnownPoints},
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
    skew::median_ms,
};

const SIZES: [u32; 6] = [19, 20, 21, 22, 23, 24];
/// The top bit of a reference: the point is subtracted.
const SIGN: u32 = 1 << 31;
/// Number of buckets of a pass that are compared with arkworks.
const SAMPLES: usize = 16;

type Words = <G1Projective as BenchGroup>::Words;

/// Milliseconds for one size: the MSM, its bucket sums, and these with one thread per bucket.
struct MsmTimes {
    whole: f64,
    sums: f64,
    unbalanced: f64,
}

impl MsmTimes {
    /// The time of the whole MSM if one thread summed each bucket.
    fn without_balance(&self) -> f64 {
        self.whole - self.sums + self.unbalanced
    }
}

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let (bench, kernel) = (MsmBench::<G1Projective>::new(rig), unbalanced(rig));
    let sizes = rig.sizes(&SIZES, &[5, 9]);
    let mut rows = [Vec::new(), Vec::new()];
    for &lg_n in &sizes {
        let job = MsmSize { group: Name::G1, n: 1 << lg_n, vectors: 1 };
        for (rows, tables) in rows.iter_mut().zip([bench.most(job), 1]) {
            rows.push(row(rig, record, &bench, &kernel, job, tables));
        }
    }
    let line = |name: &str, values: Vec<String>| println!("  | {name} | {} |", values.join(" | "));
    line("G1, ms", sizes.iter().map(|lg_n| format!("2^{lg_n}")).collect());
    line("---", sizes.iter().map(|_| "---".to_owned()).collect());
    for (rows, what) in rows.iter().zip(["tables", "no tables"]) {
        let of = |value: fn(&MsmTimes) -> f64| {
            rows.iter().map(|row| format!("{:.4}", value(row))).collect()
        };
        line(&format!("**{what}**"), of(|row| row.whole));
        line(&format!("{what}, bucket sums"), of(|row| row.sums));
        line(&format!("{what}, bucket sums by one thread per bucket"), of(|row| row.unbalanced));
        line(&format!("{what}, the whole with these"), of(MsmTimes::without_balance));
        line(
            &format!("{what}, speedup by load balancing"),
            of(|row| row.without_balance() / row.whole),
        );
    }
}

fn row(
    rig: &BenchRig,
    record: &Record,
    bench: &MsmBench<'_, G1Projective>,
    kernel: &Unbalanced,
    job: MsmSize,
    tables: u32,
) -> MsmTimes {
    let windows = job.choose_windows(tables, &rig.gpu.identity().limits);
    let (lease, placed) = bench.bases(job, &windows);
    let scalars = scalars(|random, _| uniform(random), job.n as usize);
    let (times, how) = bench.run::<g1::Config>(job, &windows, placed, &scalars);
    let whole = median_ms(&times);
    let mode = if tables > 1 { "tables" } else { "no tables" };
    let lg_n = job.n.ilog2();
    record.print_time(&TimeFigure { op: "msm_g1", mode, lg_n, batch: 1, times, how });
    let mut row = MsmTimes { whole, sums: 0.0, unbalanced: 0.0 };
    let words: Vec<[u64; 4]> = scalars.iter().map(|scalar| scalar.into_bigint().0).collect();
    let on_device = rig.upload_new(&words);
    let plan = bench.plan(job, &windows);
    for pass in plan.passes() {
        let summed =
            PassData { rig, bench, plan: &plan, pass: &pass, placed, on_device: &on_device };
        let (sums, unbalanced) = summed.both(kernel, &lease, &windows);
        row.sums += sums;
        row.unbalanced += unbalanced;
    }
    row
}

/// A pass and its data.
struct PassData<'a> {
    rig: &'a BenchRig,
    bench: &'a MsmBench<'a, G1Projective>,
    plan: &'a MsmPassPlan,
    pass: &'a MsmPass,
    placed: BasesLocation,
    on_device: &'a DeviceLease,
}

impl PassData<'_> {
    /// Device milliseconds of the bucket sums, and of these with one thread per bucket.
    fn both(&self, kernel: &Unbalanced, table: &DeviceLease, windows: &Recoding) -> (f64, f64) {
        let Self { rig, bench, plan, pass, placed, on_device } = *self;
        let workspace = rig.lease::<u8>(plan.pass_bytes(pass) as usize);
        let scalars = own(plan, pass, on_device.all());
        let mut sums = Vec::new();
        {
            let buckets = rig.lease::<u8>(plan.bucket_bytes() as usize);
            let out = rig.lease::<u8>(plan.output_bytes() as usize);
            for _ in 0..=rig.repeats {
                let memory = MsmPassMemory {
                    scalars,
                    bases: placed,
                    buckets: buckets.all(),
                    workspace: workspace.all(),
                    out: out.all(),
                };
                let marks = bench
                    .msm
                    .launch_pass(&rig.stream, true, plan, pass, memory)
                    .expect("the device works")
                    .expect("a watched pass");
                rig.stream.synchronize().expect("the device works");
                sums.push(marks.times().expect("the device has finished").accumulate);
            }
        }
        // The sorted references that the pass left in its workspace.
        let layout = plan.layout(pass).expect("as planned");
        let buckets = layout.accumulate.buckets;
        let [all_references, starts] = [layout.references, layout.starts].map(|bytes| {
            let (start, end) = (bytes.start as usize, bytes.end as usize);
            let bytes = workspace.all::<u8>().slice(start, end - start).expect("inside");
            bytes.cast::<u32>().expect("aligned")
        });
        let AlignedPoints { span: table, first } =
            AlignedPoints::of(table.all(), Name::G1).expect("a table");
        let out = rig.lease::<[Words; 2]>(buckets as usize);
        let given = (out.all(), table, all_references, starts, buckets, first);
        let times = rig.times(|| kernel.launch(&rig.stream, rig.blocks(2), given));
        let starts = rig.get(starts.slice(0, buckets as usize + 1).expect("all starts"));
        let mut random = Random(7);
        for _ in 0..SAMPLES {
            let bucket = random.below(buckets as usize);
            let [begin, end] = [starts[bucket], starts[bucket + 1]].map(|start| start as usize);
            let references = all_references.slice(begin, end - begin).expect("inside");
            let expected = self.expected(&rig.get(references), windows);
            let found = rig.get(out.all::<[Words; 2]>().slice(bucket, 1).expect("inside"));
            let found = G1Projective::from_xyzz_words(bytemuck::cast_slice(&found));
            assert_eq!(found, expected.into_affine(), "bucket {bucket} of {} points", end - begin);
        }
        // The first run warms up.
        (median_ms(&sums[1..]), median_ms(&times))
    }

    /// The sum of the points that references name, by discrete logarithms.
    fn expected(&self, references: &[u32], windows: &Recoding) -> G1Projective {
        let (different, stride) = (self.bench.points.affine.len() as u32, self.placed.stride);
        let (mut ones, mut steps) = (Fr::ZERO, Fr::ZERO);
        for reference in references {
            let at = (reference & !SIGN) - self.placed.first;
            let (table, base) = (at / stride, at % stride);
            let power = |base, exponent| Fr::from(base).pow([u64::from(exponent)]);
            let times = power(windows.factor(), table) * power(2, windows.table_offset(table));
            let times = if reference & SIGN == 0 { times } else { -times };
            ones += times;
            steps += times * Fr::from(u64::from(base % different));
        }
        G1Projective::generator() * ones + KnownPoints::<G1Projective>::step() * steps
    }
}
