//! Bucket reduction to one point per vector, on the device and on the host:
//! `kernels/msm/reduce.cu`.

use std::time::{Duration, Instant};

use ark_bls12_381::{Fr, g1, g2};
use ark_ec::{AffineRepr, PrimeGroup, short_weierstrass::Projective};
use ark_ff::{Field, Zero};
use capstan::{
    curve::Group,
    device::{BlockShape, DeviceLease, DevicePtr},
    msm::reduce::{
        BucketWeights, DeviceCurve, HostTakeover, ReducePlan, ReduceShape, ReduceTuning, Reducer,
        combine_on_host,
    },
};

use crate::{
    points,
    points::KnownPoints,
    record::{RateFigure, Record},
    rig::BenchRig,
};

/// Number of distinct points among the buckets.
const DIFFERENT: usize = 1 << 16;
/// In the mode `sparse`, one of this many buckets is not empty.
const SPARSE: usize = 16;

/// Vectors, sets per vector, and buckets per set.
type Case = (u32, u32, u32);

const FULL_G1: &[Case] = &[
    (1, 1, 1 << 9),
    (1, 1, 1 << 11),
    (1, 1, 1 << 13),
    (1, 1, 1 << 15),
    (1, 1, 1 << 17),
    (1, 1, 1 << 19),
    (1, 1, 5 << 18),
    (1, 1, 1 << 21),
    (1, 1, 9 << 19),
    (1, 16, 1 << 15),
    (1, 4, 1 << 21),
    (1000, 1, 1 << 9),
];
const FULL_G2: &[Case] = &[
    (1, 1, 1 << 9),
    (1, 1, 1 << 15),
    (1, 1, 1 << 19),
    (1, 1, 5 << 18),
    (1, 1, 1 << 21),
    (1, 1, 9 << 19),
    (1, 16, 1 << 15),
];
const QUICK: &[Case] = &[(1, 1, 1 << 6), (1, 1, 9 << 3), (3, 2, 1 << 3)];

pub fn measure(rig: &BenchRig, record: &mut Record) {
    group::<g1::Config>(rig, record, rig.size(FULL_G1, QUICK));
    group::<g2::Config>(rig, record, rig.size(FULL_G2, QUICK));
}

fn group<P: DeviceCurve<ScalarField = Fr>>(rig: &BenchRig, record: &mut Record, cases: &[Case])
where
    Projective<P>: points::BenchGroup,
{
    let different = rig.size(DIFFERENT, 1 << 5);
    let reducer = Reducer::load(rig.gpu.context()).expect("the kernels of this build");
    let points = KnownPoints::<Projective<P>>::new(different);
    latency(rig, &points);
    let sparse = KnownPoints::<Projective<P>>::new(different).with_infinities(SPARSE);
    for &case in cases {
        let (vectors, sets, buckets) = case;
        let shifts = (0..sets).map(|set| set * (buckets.ilog2() + 1)).collect();
        let (group, weights) = (P::GROUP, BucketWeights::Consecutive);
        let shape = ReduceShape { group, vectors, shifts, buckets, weights, xyzz: false };
        let work = ReduceCase::of(rig, &reducer, &points, &shape);
        let buckets = work.buckets();
        let tuning = ReduceTuning::for_limits(&rig.gpu.identity().limits, P::GROUP);
        let planned = ReducePlan::new(&shape, &tuning);
        record.record_rate(&work.figure(&planned, &buckets, "device", "planned"));
        work.steps(&planned, &buckets);
        let plans =
            variants(&tuning).map(|(what, tuning)| (what, ReducePlan::new(&shape, &tuning)));
        let of_step = |plan: ReducePlan| match plan.host_step {
            HostTakeover::Terms => ("host from terms", plan),
            HostTakeover::Sets => ("host from sets", plan),
            HostTakeover::Vectors => ("device to the end", plan),
        };
        let by_step = ReducePlan::all(&shape, &tuning).into_iter().map(of_step);
        for (what, plan) in plans.into_iter().chain(by_step).filter(|(_, plan)| *plan != planned) {
            record.print_rate(&work.figure(&plan, &buckets, "device", what));
        }
        let work = ReduceCase::of(rig, &reducer, &sparse, &shape);
        let buckets = work.buckets();
        let what = "15 of 16 buckets are empty";
        record.print_rate(&work.figure(&planned, &buckets, "sparse", what));
    }
}

/// Alternative tunings.
fn variants(tuning: &ReduceTuning) -> [(&'static str, ReduceTuning); 6] {
    let slices = |slice_points_min| ReduceTuning { slice_points_min, ..*tuning };
    let part = |lg_part| ReduceTuning { lg_part, ..*tuning };
    let groups = |groups| ReduceTuning { teams_per_multiprocessor: groups, ..*tuning };
    [
        ("no slices", slices(u64::MAX)),
        ("slices from 2^14 points", slices(1 << 14)),
        ("two thirds of the teams' lanes", groups(tuning.teams_per_multiprocessor * 2 / 3)),
        ("four thirds of the teams' lanes", groups(tuning.teams_per_multiprocessor * 4 / 3)),
        ("parts of 2^6", part(6)),
        ("parts of 2^8", part(8)),
    ]
}

/// One shape, the points in its buckets, and the expected sums.
struct ReduceCase<'a, P: DeviceCurve>
where
    Projective<P>: points::BenchGroup,
{
    rig: &'a BenchRig,
    reducer: &'a Reducer,
    points: &'a KnownPoints<Projective<P>>,
    shape: &'a ReduceShape,
    expected: Vec<Projective<P>>,
}

impl<'a, P: DeviceCurve<ScalarField = Fr>> ReduceCase<'a, P>
where
    Projective<P>: points::BenchGroup,
{
    fn of(
        rig: &'a BenchRig,
        reducer: &'a Reducer,
        points: &'a KnownPoints<Projective<P>>,
        shape: &'a ReduceShape,
    ) -> Self {
        Self { rig, reducer, points, shape, expected: expected(points, shape) }
    }

    fn count(&self) -> usize {
        (self.shape.bucket_bytes() / self.shape.group.affine_bytes() as u64) as usize
    }

    fn buckets(&self) -> DeviceLease {
        self.points.table(self.rig, self.count(), 0)
    }

    fn figure(
        &self,
        plan: &ReducePlan,
        buckets: &DeviceLease,
        mode: &'static str,
        what: &str,
    ) -> RateFigure<'_> {
        let Self { rig, shape, .. } = *self;
        let workspace = rig.lease::<u8>(plan.workspace_bytes() as usize);
        let out = rig.lease::<u8>(plan.output_bytes() as usize);
        let spans = (buckets.all(), workspace.all(), out.all());
        let times = rig.times(|| self.reducer.run(&rig.stream, plan, spans.0, spans.1, spans.2));
        let left = rig.get::<u8>(out.all());
        let begun = Instant::now();
        let found = combine_on_host::<P>(plan, &left);
        let host = begun.elapsed();
        assert!(found == self.expected, "{what}: {plan:?}");
        let ReduceShape { vectors, shifts, buckets, .. } = shape;
        let twos = buckets.trailing_zeros();
        let buckets = match buckets >> twos {
            1 => format!("2^{twos}"),
            odd => format!("{odd} * 2^{twos}"),
        };
        let how = format!(
            "{vectors} x {} x {buckets}, {what}: {:.3} ms, {} launches, {:?}, host {:.3} ms",
            shifts.len(),
            median(&times).as_secs_f64() * 1e3,
            plan.steps.len(),
            plan.host_step,
            host.as_secs_f64() * 1e3,
        );
        let op = match shape.group {
            Group::G1 => "g1_reduce_buckets",
            Group::G2 => "g2_reduce_buckets",
        };
        RateFigure { op, mode, count: self.count() as u64, times, unit: "G/s", details: how }
    }

    /// Prints the time of each launch: the difference between runs with and without it.
    fn steps(&self, plan: &ReducePlan, buckets: &DeviceLease) {
        let rig = self.rig;
        let workspace = rig.lease::<u8>(plan.workspace_bytes() as usize);
        let mut before = Duration::ZERO;
        for launches in 1..=plan.steps.len() {
            let mut first = plan.clone();
            first.steps.truncate(launches);
            let out = rig.lease::<u8>(first.output_bytes() as usize);
            let (out, workspace) = (out.all(), workspace.all());
            let work = || self.reducer.run(&rig.stream, &first, buckets.all(), workspace, out);
            let until = median(&rig.times(work));
            let own = until.saturating_sub(before).as_secs_f64() * 1e3;
            println!("    {own:.4} ms  {:?}", plan.steps[launches - 1]);
            before = until;
        }
    }
}

/// The right sums, by discrete logarithms.
fn expected<P: DeviceCurve<ScalarField = Fr>>(
    points: &KnownPoints<Projective<P>>,
    shape: &ReduceShape,
) -> Vec<Projective<P>>
where
    Projective<P>: points::BenchGroup,
{
    let (size, sets) = (shape.buckets as usize, shape.shifts.len());
    let logarithm = |at: usize| {
        if points.at(at).is_zero() { Fr::zero() } else { points.logarithm(at) }
    };
    let set = |set: usize| -> Fr {
        (0..size).map(|b| Fr::from(b as u64 + 1) * logarithm(set * size + b)).sum()
    };
    let vector = |vector: usize| {
        let shifted = shape
            .shifts
            .iter()
            .enumerate()
            .map(|(at, &shift)| Fr::from(2_u64).pow([shift.into()]) * set(vector * sets + at));
        Projective::<P>::generator() * shifted.sum::<Fr>()
    };
    (0..shape.vectors as usize).map(vector).collect()
}

/// Prints the latency of dependent additions and doublings by a group of 4 lanes, in which the
/// plans' costs are counted.
fn latency<P: DeviceCurve<ScalarField = Fr>>(rig: &BenchRig, points: &KnownPoints<Projective<P>>)
where
    Projective<P>: points::BenchGroup,
{
    type Collect = (DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u64);
    let name = format!("{}_reduce_combine", P::GROUP.name());
    let kernel = rig.kernel::<Collect>("msm/reduce", &name, BlockShape::threads(128));
    let steps = rig.size(256, 8);
    // Arbitrary elements as XYZZ coordinates: the formulas take the same steps for invalid points.
    let given = points.table(rig, 2 * (steps as usize + 1), 0);
    let out = rig.lease::<u8>(2 * 4 * P::GROUP.coordinate_bytes());
    let (to, from) = (out.all(), given.all());
    // One sum of many points; two sums of one point each, with many doublings of the second one.
    let launches = [
        ("addition", (to, from, 1, steps + 1, 1, 1, 0, 0)),
        ("doubling", (to, from, 2, 1, 1, 2, steps, 0)),
    ];
    for (what, spans) in launches {
        let times = rig.times(|| kernel.launch(&rig.stream, 1, spans));
        let each = median(&times).as_secs_f64() * 1e6 / f64::from(steps);
        println!("  {name}: {each:.2} us per dependent {what}");
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}
