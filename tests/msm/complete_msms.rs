//! Whole MSMs against arkworks, with every kind of windows, each in one pass.

use ark_bls12_381::{Fr, g1, g2};
use ark_ec::{
    CurveGroup,
    short_weierstrass::{Affine, Projective},
};
use ark_ff::AdditiveGroup;
use capstan::{
    device::{DeviceLease, DeviceLimits},
    msm::{
        AlignedPoints, BasesLocation, MsmBudget, MsmKernels, MsmPass, MsmPassMemory, MsmPassPlan,
        MsmSize, Recoding, SlidingWindows,
        reduce::DeviceCurve,
        tables::{TableBuilder, TableLayout},
    },
};

use crate::{
    digits,
    gpu::{KernelRig, each_seed},
    points::{self, distinct},
    scalars::{DISTRIBUTIONS, rng, uniform, words},
};

/// More device memory than any of these MSMs needs, in bytes.
pub const AMPLE: u64 = 64 << 20;

/// The kernels of MSMs, and bases.
pub struct MsmBench<'a, P: points::TestCurve> {
    rig: &'a KernelRig,
    msm: MsmKernels,
    tables: TableBuilder,
    bases: Vec<Affine<P>>,
}

impl<'a, P: points::TestCurve + DeviceCurve> MsmBench<'a, P> {
    /// Loads the kernels and makes `n` bases: distinct points, infinity, equal and opposite points.
    pub fn new(rig: &'a KernelRig, n: usize) -> Self {
        let mut bases = distinct::<P>(&mut ark_std::test_rng(), n);
        for i in 0..n {
            match i % 16 {
                5 => bases[i] = Affine::identity(),
                9 => bases[i] = bases[i - 1],
                11 => bases[i] = -bases[i - 1],
                _ => {}
            }
        }
        let context = rig.gpu().context();
        let (msm, tables) =
            (MsmKernels::load(context).unwrap(), TableBuilder::load(context).unwrap());
        Self { rig, msm, tables, bases }
    }

    fn place(&self, n: usize, windows: &Recoding) -> (DeviceLease, BasesLocation) {
        let offsets: Vec<_> = (0..windows.tables()).map(|t| windows.table_offset(t)).collect();
        let group = <P as points::TestCurve>::GROUP;
        let factor = windows.factor();
        let layout = TableLayout { group, points: n as u32, stride: n, offsets: &offsets, factor };
        let lease = self.rig.lease::<u8>(layout.bytes() + group.affine_bytes());
        let AlignedPoints { span, first } = AlignedPoints::of(lease.all(), group).unwrap();
        let limbs = points::limbs(&self.bases[..n]);
        self.rig.write(span, &limbs);
        let scratch = self.rig.lease::<u8>(self.tables.scratch_bytes(group, n as u32) as usize);
        self.tables.run(self.rig.stream(), &layout, span, scratch.all()).unwrap();
        (lease, BasesLocation { first, stride: n as u32 })
    }

    /// That many bytes, with the device's limits.
    pub fn room(&self, bytes: u64) -> MsmBudget {
        MsmBudget { bytes, limits: self.rig.limits() }
    }

    /// Runs `passes` on the device. `scalars` holds all vectors, one after the other.
    fn sums(&self, plan: &MsmPassPlan, passes: &[MsmPass], scalars: &[Fr]) -> Vec<Projective<P>> {
        let job = plan.job();
        let (_bases, placed) = self.place(job.n as usize, plan.windows());
        let given = self.rig.upload(&words(scalars));
        let room = |bytes: u64| self.rig.lease::<u8>(bytes as usize);
        let most = passes.iter().map(|pass| plan.pass_bytes(pass)).max().unwrap();
        let (buckets, workspace) = (room(plan.bucket_bytes()), room(most));
        let out = room(plan.output_bytes());
        let mut marks = Vec::new();
        for (i, pass) in passes.iter().enumerate() {
            let begin = pass.first_scalar(job.n) as usize;
            let memory = MsmPassMemory {
                scalars: given.all().slice(begin, pass.scalars() as usize).unwrap(),
                bases: placed,
                buckets: buckets.all(),
                workspace: workspace.all(),
                out: out.all(),
            };
            let watch = i % 2 == 0;
            let marked = self.msm.launch_pass(self.rig.stream(), watch, plan, pass, memory);
            marks.push(marked.unwrap());
            assert_eq!(marks[i].is_some(), watch);
        }
        let sums = MsmKernels::combine_sums(plan, &self.rig.download::<u8>(&out));
        for marks in marks.iter().flatten() {
            marks.times().unwrap();
        }
        sums
    }

    /// Runs an MSM in one pass and compares it with arkworks.
    fn compare(&self, n: usize, vectors: usize, windows: Recoding, scalars: &[Fr]) {
        let job = MsmSize { vectors: vectors as u32, ..job::<P>(n) };
        let plan = MsmPassPlan::new(job, windows, self.room(AMPLE)).unwrap();
        let passes: Vec<_> = plan.passes().collect();
        assert_eq!(passes.len(), 1, "{plan}");
        self.compare_in(&plan, &passes, scalars);
    }

    /// Runs `passes` of `plan` and compares the sums with arkworks.
    pub fn compare_in(&self, plan: &MsmPassPlan, passes: &[MsmPass], scalars: &[Fr]) {
        let n = plan.job().n as usize;
        let found = Projective::normalize_batch(&self.sums(plan, passes, scalars));
        for (vector, found) in found.iter().enumerate() {
            let own = &scalars[vector * n..][..n];
            let products = own.iter().zip(&self.bases).map(|(scalar, base)| *base * scalar);
            let expected = products.fold(Projective::ZERO, |sum, product| sum + product);
            assert_eq!(*found, expected.into_affine(), "{n} scalars, {plan}");
        }
    }
}

pub fn job<P: points::TestCurve>(n: usize) -> MsmSize {
    MsmSize { group: <P as points::TestCurve>::GROUP, n: n as u32, vectors: 1 }
}

fn check_sizes<P: points::TestCurve + DeviceCurve>(sizes: &[usize]) {
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, 160);
        let mut rng = rng();
        // Groups of three sizes, with different tables, share a seed.
        for (i, &n) in sizes.iter().enumerate().filter(|(i, _)| rig.runs_case(i / 3)) {
            let (_, scalar) = DISTRIBUTIONS[i % DISTRIBUTIONS.len()];
            let scalars: Vec<_> = (0..n).map(|i| scalar(&mut rng, i)).collect();
            let tables = [1, 64, 5][i % 3];
            let tables = if n < 40 && tables == 64 { SlidingWindows::TABLES } else { tables };
            bench.compare(n, 1, job::<P>(n).choose_windows(tables, &rig.limits()), &scalars);
        }
    });
}

/// Checks every distribution. `windows` maps its index to the windows to use.
fn check_distributions<P: points::TestCurve + DeviceCurve>(
    n: usize,
    windows: impl Fn(usize) -> Recoding,
) {
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, n);
        let mut rng = rng();
        for (i, (name, scalar)) in DISTRIBUTIONS.into_iter().enumerate() {
            if !rig.runs_case(i) {
                continue;
            }
            println!("{name}");
            let scalars: Vec<_> = (0..n).map(|i| scalar(&mut rng, i)).collect();
            bench.compare(n, 1, windows(i), &scalars);
        }
    });
}

/// Sliding windows, narrow and wide.
fn sliding(i: usize) -> Recoding {
    Recoding::sliding([4, 7, 12][i % 3]).unwrap()
}

/// Digits of a radix that is not a power of two: the one with the fewest buckets.
fn radix() -> Recoding {
    digits::radix(26).unwrap()
}

fn check_batches<P: points::TestCurve + DeviceCurve>(shapes: &[(usize, usize)]) {
    each_seed(|rig| {
        let bench = MsmBench::<P>::new(rig, 40);
        let mut rng = rng();
        for (i, &(n, vectors)) in shapes.iter().enumerate() {
            if !rig.runs_case(i) {
                continue;
            }
            let scalars: Vec<_> = (0..n * vectors).map(|_| uniform(&mut rng)).collect();
            for tables in [1, 64, SlidingWindows::TABLES] {
                bench.compare(
                    n,
                    vectors,
                    job::<P>(n).choose_windows(tables, &rig.limits()),
                    &scalars,
                );
            }
            bench.compare(n, vectors, radix(), &scalars);
        }
    });
}

#[test]
fn msms_of_all_sizes_match_arkworks() {
    let sizes: Vec<_> = (0..=130).step_by(7).chain([1, 2, 3, 31, 32, 33, 64, 65, 128]).collect();
    check_sizes::<g1::Config>(&sizes);
    check_sizes::<g2::Config>(&[0, 1, 2, 33]);
}

#[test]
fn msms_of_all_distributions_match_arkworks() {
    check_distributions::<g1::Config>(160, |_| {
        job::<g1::Config>(160).choose_windows(64, &DeviceLimits::H200)
    });
    check_distributions::<g2::Config>(24, |_| {
        job::<g2::Config>(24).choose_windows(64, &DeviceLimits::H200)
    });
    check_distributions::<g1::Config>(33, sliding);
    check_distributions::<g2::Config>(7, sliding);
    check_distributions::<g1::Config>(65, |_| radix());
    check_distributions::<g2::Config>(8, |_| radix());
}

#[test]
fn batches_match_arkworks() {
    check_batches::<g1::Config>(&[(40, 3), (33, 7), (1, 40)]);
    check_batches::<g2::Config>(&[(7, 4), (20, 2), (1, 9)]);
}
