//! Whole MSMs (`src/gpu/msm`), from bases and scalars on the device to the sum on the host, by the
//! host's clock. Bases are known multiples of the generator, so one multiplication checks a result.
//!
//! `lg=10,20` selects sizes, `groups=g1` groups, `windows=fixed` or `sliding` the kind of windows.
//! `bits=16,17` compares windows of these widths, of both kinds if memory allows; with
//! `windows=radix`, it compares digits of radices that are not powers of two, and the numbers are
//! digits per scalar. Comparisons are not recorded.

use std::time::{Duration, Instant};

use ark_bls12_381::{Fr, G1Projective, G2Projective, g1, g2};
use ark_ec::short_weierstrass::Projective;
use ark_ff::{AdditiveGroup, PrimeField};
use capstan::{
    curve::Group as Name,
    device::{DeviceFault, DeviceLease, DeviceSlice},
    msm::{
        AlignedPoints, BasesLocation, FixedWindows, MsmBudget, MsmKernels, MsmPass, MsmPassMemory,
        MsmPassPlan, MsmSize, MsmStageTimes, Recoding, SlidingWindows, StageEvents,
        reduce::DeviceCurve,
        tables::{TableBuilder, TableLayout},
    },
};
use rayon::prelude::*;

use crate::{
    digits::radix,
    points::{BenchGroup, KnownPoints},
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

/// log2 of the sizes in G1 and G2, and of those that are also measured without tables.
const G1_SIZES: [u32; 12] = [10, 12, 14, 16, 18, 19, 20, 21, 22, 23, 24, 26];
const G2_SIZES: [u32; 7] = [10, 12, 16, 18, 20, 22, 24];
const VARIABLE: std::ops::RangeInclusive<u32> = 16..=26;
/// Number of distinct points; larger tables repeat them.
const DIFFERENT: usize = 1 << 20;
/// The part of the arena that tables may take, and the part for tables of every power of two, which
/// is the engine's unless sliding windows are asked for.
const TABLES: (u64, u64) = (7, 10);
const SLIDING: (u64, u64) = (1, 4);

/// `count` scalars of a distribution.
pub fn scalars(scalar: Scalar, count: usize) -> Vec<Fr> {
    const GRAIN: usize = 1 << 12;
    let mut scalars = vec![Fr::ZERO; count];
    scalars.par_chunks_mut(GRAIN).enumerate().for_each(|(chunk, scalars)| {
        let mut random = Random(chunk as u64 + 1);
        let first = chunk * GRAIN;
        scalars.iter_mut().enumerate().for_each(|(i, s)| *s = scalar(&mut random, first + i));
    });
    scalars
}

/// A distribution: returns scalar i.
pub type Scalar = fn(&mut Random, usize) -> Fr;

/// The mode that is compared with other projects.
const UNIFORM: &str = "tables_resident";

/// A uniformly distributed scalar.
pub fn uniform(random: &mut Random) -> Fr {
    let mut bytes = [0; 32];
    bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = random.next().to_le_bytes());
    Fr::from_le_bytes_mod_order(&bytes)
}

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let groups = rig.argument("groups").unwrap_or_else(|| "g1,g2".to_owned());
    let sizes = |own: &[u32]| rig.sizes(own, &[5, 9]);
    if groups.contains("g1") {
        MsmBench::<G1Projective>::new(rig).sizes::<g1::Config>(record, &sizes(&G1_SIZES), Name::G1);
    }
    if groups.contains("g2") {
        MsmBench::<G2Projective>::new(rig).sizes::<g2::Config>(record, &sizes(&G2_SIZES), Name::G2);
    }
}

/// Times of the stages over all passes of one run, by the device's clock.
fn stages(marks: &[StageEvents]) -> String {
    let times = |marks: &StageEvents| marks.times().expect("the device has finished");
    let of_passes: Vec<_> = marks.iter().map(times).collect();
    let sum = |stage: fn(&MsmStageTimes) -> Duration| {
        of_passes.iter().map(stage).sum::<Duration>().as_secs_f64() * 1e3
    };
    let (sort, accumulate) = (sum(|times| times.sort), sum(|times| times.accumulate));
    format!("{sort:.3} + {accumulate:.3} + {:.3} ms", sum(|times| times.reduce))
}

/// A pass's part of all scalars.
pub fn own<'a>(
    plan: &MsmPassPlan,
    pass: &MsmPass,
    all: DeviceSlice<'a, [u32; 8]>,
) -> DeviceSlice<'a, [u32; 8]> {
    let begin = pass.first_scalar(plan.job().n) as usize;
    all.slice(begin, pass.scalars() as usize).expect("as planned")
}

/// The kernels, and points that are known multiples of the generator.
pub struct MsmBench<'a, G: BenchGroup> {
    rig: &'a BenchRig,
    pub msm: MsmKernels,
    tables: TableBuilder,
    /// Bases are these points, repeated.
    pub points: KnownPoints<G>,
}

impl<'a, G: BenchGroup> MsmBench<'a, G> {
    /// Loads the kernels and makes points.
    pub fn new(rig: &'a BenchRig) -> Self {
        let context = rig.gpu.context();
        let msm = MsmKernels::load(context).unwrap_or_else(|reason| panic!("{reason}"));
        let tables = TableBuilder::load(context).unwrap_or_else(|reason| panic!("{reason}"));
        Self { rig, msm, tables, points: KnownPoints::new(rig.size(DIFFERENT, 1 << 8)) }
    }

    fn sizes<P>(&self, record: &mut Record, sizes: &[u32], group: Name)
    where
        P: DeviceCurve,
        G: From<Projective<P>>,
    {
        for &lg_n in sizes {
            let n = 1_u32 << lg_n;
            let job = MsmSize { group, n, vectors: 1 };
            self.with_tables::<P>(record, job);
            if VARIABLE.contains(&lg_n) && group == Name::G1 {
                self.variable::<P>(record, job);
            }
            if lg_n == 10 && group == Name::G1 {
                let vectors = self.rig.size(1000, 3);
                self.with_tables::<P>(record, MsmSize { vectors, ..job });
            }
        }
    }

    /// The largest number of useful tables that fits in memory.
    pub fn most(&self, job: MsmSize) -> u32 {
        let table = u64::from(job.n) * job.group.affine_bytes() as u64;
        let within = |(part, of)| self.rig.gpu.arena().bytes() / of * part / table;
        let every = within(if self.wants("sliding") { TABLES } else { SLIDING });
        if every >= SlidingWindows::TABLES.into() && !self.wants("fixed") {
            return SlidingWindows::TABLES;
        }
        within(TABLES).clamp(1, 64) as u32
    }

    /// Whether the command line asks for this kind of windows only.
    fn wants(&self, kind: &str) -> bool {
        self.rig.argument("windows").is_some_and(|wanted| wanted == kind)
    }

    fn choices(&self, job: MsmSize, tables: u32) -> Vec<Recoding> {
        let slide = tables >= SlidingWindows::TABLES;
        let Some(text) = self.rig.argument("bits") else {
            let windows = job.choose_windows(tables, &self.rig.gpu.identity().limits);
            return if self.wants("sliding") && !slide { vec![] } else { vec![windows] };
        };
        let fixed = |bits| {
            let count = FixedWindows::new(bits, 1, u32::MAX)?.count;
            Recoding::fixed(bits, count.div_ceil(tables), tables)
        };
        // `number` is a width, or a number of digits of a radix.
        let windows = |number: &str| {
            let number = number.parse().expect("a number");
            let fixed = fixed(number).filter(|_| !self.wants("sliding") && !self.wants("radix"));
            let radix = radix(number).filter(|_| self.wants("radix") && number <= tables);
            let sliding = Recoding::sliding(number).filter(|_| slide && !self.wants("radix"));
            [fixed, radix, sliding]
        };
        text.split(',').flat_map(windows).flatten().collect()
    }

    fn with_tables<P>(&self, record: &mut Record, job: MsmSize)
    where
        P: DeviceCurve,
        G: From<Projective<P>>,
    {
        for windows in self.choices(job, self.most(job)) {
            let begun = Instant::now();
            let (_lease, placed) = self.bases(job, &windows);
            let how = format!("bases and tables in {:.1} s", begun.elapsed().as_secs_f64());
            let scalars =
                scalars(|random, _| uniform(random), job.n as usize * job.vectors as usize);
            let (times, did) = self.run::<P>(job, &windows, placed, &scalars);
            self.record(record, job, UNIFORM, times, format!("{did}, {how}"));
        }
    }

    fn variable<P>(&self, record: &mut Record, job: MsmSize)
    where
        P: DeviceCurve,
        G: From<Projective<P>>,
    {
        for windows in self.choices(job, 1) {
            let (_lease, placed) = self.bases(job, &windows);
            let scalars = scalars(|random, _| uniform(random), job.n as usize);
            let (times, how) = self.run::<P>(job, &windows, placed, &scalars);
            self.record(record, job, "variable_resident", times, how);
        }
    }

    /// Makes bases and the tables that the windows need.
    pub fn bases(&self, job: MsmSize, windows: &Recoding) -> (DeviceLease, BasesLocation) {
        let rig = self.rig;
        let offsets: Vec<_> = (0..windows.tables()).map(|t| windows.table_offset(t)).collect();
        let (group, stride) = (job.group, job.n as usize);
        let factor = windows.factor();
        let layout = TableLayout { group, points: job.n, stride, offsets: &offsets, factor };
        let lease = rig.lease::<u8>(layout.bytes() + group.affine_bytes());
        let AlignedPoints { span, first } =
            AlignedPoints::of(lease.all(), group).expect("inside the arena");
        let bases = span.slice(0, stride * group.affine_bytes()).expect("as leased");
        self.points.fill(rig, bases);
        let scratch = rig.lease::<u8>(self.tables.scratch_bytes(group, job.n) as usize);
        self.tables.run(&rig.stream, &layout, span, scratch.all()).expect("tables");
        rig.stream.synchronize().expect("the device works");
        (lease, BasesLocation { first, stride: job.n })
    }

    /// Checks and measures a whole MSM. Returns times by the host's clock and a description.
    pub fn run<P>(
        &self,
        job: MsmSize,
        windows: &Recoding,
        placed: BasesLocation,
        scalars: &[Fr],
    ) -> (Vec<Duration>, String)
    where
        P: DeviceCurve,
        G: From<Projective<P>>,
    {
        let rig = self.rig;
        let words: Vec<[u64; 4]> = scalars.par_iter().map(|s| s.into_bigint().0).collect();
        let on_device = rig.upload_new(&words);
        let plan = self.plan(job, windows);
        let buckets = rig.lease::<u8>(plan.bucket_bytes() as usize);
        let workspace = rig.lease::<u8>(plan.workspace_bytes() as usize);
        let out = rig.lease::<u8>(plan.output_bytes() as usize);
        let once = |mut marks: Option<&mut Vec<StageEvents>>| {
            let begun = Instant::now();
            for pass in plan.passes() {
                let memory = MsmPassMemory {
                    scalars: own(&plan, &pass, on_device.all()),
                    bases: placed,
                    buckets: buckets.all(),
                    workspace: workspace.all(),
                    out: out.all(),
                };
                let watch = marks.is_some();
                let marked = self.msm.launch_pass(&rig.stream, watch, &plan, &pass, memory)?;
                if let Some(marks) = &mut marks {
                    marks.extend(marked);
                }
            }
            let sums = MsmKernels::combine_sums::<P>(&plan, &rig.get(out.all()));
            Ok::<_, DeviceFault>((begun.elapsed(), sums))
        };
        let (_, sums) = once(None).expect("the device works");
        self.check(job, scalars, sums.into_iter().map(G::from));
        let one = || once(None).expect("the device works").0;
        rig.warm(|| _ = one());
        let times = (0..rig.repeats).map(|_| one()).collect();
        let mut marks = Vec::new();
        once(Some(&mut marks)).expect("the device works");
        (times, format!("{plan}, {}", stages(&marks)))
    }

    /// The plan for the free memory of the arena.
    pub fn plan(&self, job: MsmSize, windows: &Recoding) -> MsmPassPlan {
        let bytes = self.rig.gpu.arena().largest_free_bytes();
        let room = MsmBudget { bytes, limits: self.rig.gpu.identity().limits };
        MsmPassPlan::new(job, *windows, room).expect("memory for a pass")
    }

    /// Records a time if the planner chose the windows, else only shows it.
    fn record(
        &self,
        record: &mut Record,
        job: MsmSize,
        mode: &str,
        times: Vec<Duration>,
        how: String,
    ) {
        let op = format!("msm_{}", job.group.name());
        let (lg_n, batch) = (job.n.ilog2(), job.vectors as usize);
        let time = TimeFigure { op: &op, mode, lg_n, batch, times, how };
        let shown = self.rig.argument("bits").is_some();
        if shown { record.print_time(&time) } else { record.record_time(&time) }
    }

    /// Checks sums by discrete logarithms.
    pub fn check(&self, job: MsmSize, scalars: &[Fr], sums: impl Iterator<Item = G>) {
        let different = self.points.affine.len();
        for (vector, (scalars, sum)) in scalars.chunks(job.n as usize).zip(sums).enumerate() {
            let part =
                |(i, scalar): (usize, &Fr)| (*scalar, *scalar * Fr::from((i % different) as u64));
            let add = |a: (Fr, Fr), b: (Fr, Fr)| (a.0 + b.0, a.1 + b.1);
            let zero = || (Fr::ZERO, Fr::ZERO);
            let (ones, steps) = scalars.par_iter().enumerate().map(part).reduce(zero, add);
            let expected = G::generator() * ones + KnownPoints::<G>::step() * steps;
            assert!(sum == expected, "vector {vector} of 2^{}", job.n.ilog2());
        }
    }
}
