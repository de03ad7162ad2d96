//! Tests the kernels of a GPU before its first job: MSMs in both groups, NTTs and point checks,
//! compared with the host. The test of single operations (`device/self_test`) does not cover how
//! the compiler, possibly the driver's at load time, combined them in these kernels.

use std::{sync::Arc, time::Instant};

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};

use super::{msm::GpuMsm, ntt::GpuNtt, points::DevicePointChecker};
use crate::{
    curve::{
        Fr, G1Affine, G2Affine, layout,
        points::{BadElement, CurvePoint, PointEncoding, PointSlice},
        scalars::ScalarEncoding,
    },
    device::{DeviceFault, Gpu, GpuUnavailable},
    engine::{EncodedScalars, JobControl, NttPlan, NttRows, rows::RowsInPlace},
    error::{Error, FieldProblem, Limit},
    msm::SplitThresholds,
};

/// Sizes of a test: just large enough to run all kernels of a stage.
struct SelfTestSizes {
    /// Points of G1 and G2.
    points: [usize; 2],
    /// log2 of the lengths of the transforms.
    transforms: &'static [u32],
}

/// Large enough for bin sorting, tree levels, and NTT passes over rows and over columns.
const ON_A_GPU: SelfTestSizes =
    SelfTestSizes { points: [1 << 13, 1 << 12], transforms: &[6, 10, 13, 16] };
/// The emulated device takes a second for a GPU's millisecond.
const EMULATED: SelfTestSizes = SelfTestSizes { points: [40, 20], transforms: &[5, 7] };

/// Forces the tree for few points, and never sums whole buckets.
const FORCE_TREE: SplitThresholds = SplitThresholds {
    streamed_scalars_min: u32::MAX,
    points_min: 1,
    whole_bucket_digits_max: 0,
    level_additions_min: Some(8),
};

/// Tests `gpu` and returns a summary.
///
/// Errors: `Device` with `Wrong` if a result differs from the host's or a job fails.
pub fn run(
    gpu: &Gpu,
    computer: &GpuMsm,
    transformer: &GpuNtt,
    checker: &DevicePointChecker,
) -> Result<String, GpuUnavailable> {
    let begun = Instant::now();
    let sizes = if gpu.context().driver().is_emulated() { EMULATED } else { ON_A_GPU };
    let test = || {
        msm::<G1Affine>(computer, sizes.points[0])?;
        msm::<G2Affine>(computer, sizes.points[1])?;
        sizes.transforms.iter().try_for_each(|lg_n| ntt(transformer, *lg_n))?;
        points::<G1Affine>(checker)?;
        points::<G2Affine>(checker)
    };
    let tested = test();
    // Evict what the test loaded.
    while computer.evict_idle() {}
    transformer.forget_tables();
    tested.map_err(|failure| {
        let fault = DeviceFault::WrongResult(match failure {
            SelfTestFailure::Wrong(what) => what,
            SelfTestFailure::Job(what, error) => format!("{what}: {error}"),
        });
        GpuUnavailable::Device { index: gpu.identity().index, fault }
    })?;
    Ok(format!("in {} ms (MSM, NTT, point checks)", begun.elapsed().as_millis()))
}

enum SelfTestFailure {
    Wrong(String),
    /// The computation, and the error of its job.
    Job(String, Error),
}

/// Pseudorandom elements, the same every time.
fn numbers(count: usize) -> Vec<Fr> {
    let first = Fr::GENERATOR.pow([0xca95_7a11]);
    let next = |last: &Fr| Some(last.square() + Fr::GENERATOR);
    std::iter::successors(Some(first), next).take(count).collect()
}

/// Points 1, 2, 3 ... times the generator: the host gets the sum with a single multiplication.
fn multiples<A: CurvePoint>(count: usize) -> Vec<A> {
    let one = A::generator().into_group();
    let sums = std::iter::successors(Some(one), |sum| Some(*sum + one)).take(count);
    A::Group::normalize_batch(&sums.collect::<Vec<_>>())
}

/// Runs an MSM twice with default thresholds, the second time with tables; then with the tree.
fn msm<A: CurvePoint>(computer: &GpuMsm, count: usize) -> Result<(), SelfTestFailure> {
    let points = multiples::<A>(count);
    let scalars = numbers(count);
    let total: Fr = (1_u64..).zip(&scalars).map(|(times, scalar)| *scalar * Fr::from(times)).sum();
    let expected = A::generator() * total;
    let bases = A::into_bases(PointSlice::new(Arc::new(points)));
    let what = |how| format!("an MSM in {}, {how}", A::GROUP);
    let source = layout::fr_as_bytes(&scalars);
    let control = JobControl::default();
    let usual = SplitThresholds::default();
    for (how, cuts) in
        [("without tables", usual), ("with tables", usual), ("by a tree", FORCE_TREE)]
    {
        let failed = |error| SelfTestFailure::Job(what(how), error);
        let mut run = computer.run_with_thresholds(bases.clone(), 1, cuts);
        let encoded = EncodedScalars::new(ScalarEncoding::Montgomery, count, &source);
        run.absorb(0, 0, &encoded, &control).map_err(failed)?;
        let (sums, _) = run.finish().map_err(failed)?;
        if A::from_sums(sums) != Some(vec![expected]) {
            return Err(SelfTestFailure::Wrong(what(how)));
        }
    }
    Ok(())
}

/// Tests a forward transform and an inverse one on a coset, in natural order.
fn ntt(transformer: &GpuNtt, lg_n: u32) -> Result<(), SelfTestFailure> {
    let what = format!("an NTT of 2^{lg_n}");
    let failed = |error| SelfTestFailure::Job(what.clone(), error);
    let values = numbers(1 << lg_n);
    let too_large = || failed(Error::Internal("no domain has that size".to_owned()));
    let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).ok_or_else(too_large)?;
    let coset = domain.get_coset(Fr::GENERATOR).ok_or_else(too_large)?;
    let plan = |inverse, coset| {
        let (input_reversed, output_reversed) = (false, false);
        NttPlan { lg_n, inverse, coset, input_reversed, output_reversed }
    };
    for (plan, expected) in [
        (plan(false, None), domain.fft(&values)),
        (plan(true, Some(Fr::GENERATOR)), coset.ifft(&values)),
    ] {
        let mut rows = [values.clone()];
        let in_place = RowsInPlace::new(&mut rows);
        let encoding = ScalarEncoding::Montgomery;
        let input = EncodedScalars::new(encoding, 1 << lg_n, &in_place);
        let (count, row_length, output, check) = (1, 1 << lg_n, &in_place, false);
        let given = NttRows { input, count, row_length, encoding, output, check_on_device: check };
        let done = transformer.run(&plan, &given, &JobControl::default()).map_err(failed)?;
        if done.is_none() {
            let limit = Limit::DeviceMemory;
            return Err(failed(Error::Exhausted { limit, retry_after: None }));
        }
        if rows[0] != expected {
            return Err(SelfTestFailure::Wrong(what));
        }
    }
    Ok(())
}

/// Checks good points, then the same with one that is not on the curve.
fn points<A: CurvePoint>(checker: &DevicePointChecker) -> Result<(), SelfTestFailure> {
    const COUNT: usize = 8;
    const BAD: usize = 5;
    let what = format!("a check of points in {}", A::GROUP);
    let mut points = multiples::<A>(COUNT);
    let bytes = layout::points_as_bytes(&points).to_vec();
    let mut damaged = bytes.clone();
    // Replace its x by another point's.
    let (width, half) = (A::GROUP.affine_bytes(), A::GROUP.coordinate_bytes());
    damaged.copy_within(..half, BAD * width);
    let bad = BadElement { index: BAD as u64, problem: FieldProblem::NotOnCurve };
    for (bytes, expected) in [(bytes, Ok(())), (damaged, Err(bad))] {
        let found = checker.check(PointEncoding::Montgomery, &bytes, &mut points);
        if found.map_err(|error| SelfTestFailure::Job(what.clone(), error))? != expected {
            return Err(SelfTestFailure::Wrong(what));
        }
    }
    Ok(())
}
