//! Tests the kernels of a GPU before its first job: MSMs in both groups, NTTs over Fr and over a
//! 31-bit prime, products over that, point checks, integers and matrices of bits, compared with the
//! host. The test of single operations (`device/self_test`) does not cover how the compiler,
//! possibly the driver's at load time, combined them in these kernels.

mod jobs;
mod msm;
mod ntt;
mod sizes;
mod steps;
mod verdict;
mod words;

use std::{array, sync::Arc, time::Instant};

use tracing::info_span;

pub use self::sizes::{
    EMULATED, NttBatch, ON_A_GPU, SelfTestBases, SelfTestElimination, SelfTestFactors,
    SelfTestSizes, WordTransform,
};
use self::{
    jobs::{SelfTestJob, run_at_once, run_in_turn},
    msm::multiples,
    steps::StepTest,
    verdict::SelfTestVerdict,
};
use super::{CudaEngine, point_check::DevicePointChecker, serving_gpu::ServingGpu};
use crate::{
    curve::{
        G1Affine, G2Affine, Group, layout,
        points::{BadElement, CurvePoint, PointEncoding, encode},
    },
    device::{DeviceFault, GpuUnavailable},
    error::FieldProblem,
};

/// Tests the engine's GPU of this number and returns a summary.
///
/// Errors: `Device` with `WrongResult` if a result differs from the host's or a job fails, with
/// `OutOfMemory` if the arena is too small for any job of a kind.
pub(super) fn run(engine: &Arc<CudaEngine>, number: usize) -> Result<String, GpuUnavailable> {
    let begun = Instant::now();
    let gpu = &engine.gpus[number];
    let index = gpu.gpu.identity().index;
    // Marks the log lines of these jobs.
    let _span = info_span!("self_test", device = index).entered();
    let tested = test(engine, number);
    evict(gpu);
    // A device that fails while the jobs release their memory must not serve, either.
    let tested = tested.and_then(|()| gpu.gpu.wait_for_ended_jobs());
    tested.map_err(|fault| GpuUnavailable::Device { index, fault })?;
    gpu.msm.resident().start_serving();
    let kinds = "MSMs, NTTs, point checks, integers, matrices of bits";
    Ok(format!("in {} ms ({kinds})", begun.elapsed().as_millis()))
}

fn test(engine: &Arc<CudaEngine>, number: usize) -> Result<(), DeviceFault> {
    let gpu = &engine.gpus[number];
    let sizes = gpu.self_test_sizes();
    let verdicts: [_; 7] = array::from_fn(|_| SelfTestVerdict::new(&gpu.gpu));
    let jobs = all_jobs(engine, number, &sizes, &verdicts);
    let arena_bytes = gpu.gpu.arena().bytes();
    let threads = engine.cpu.threads().current_num_threads();
    let threads = threads.min((arena_bytes / sizes.job_bytes) as usize);
    let in_turn = || run_in_turn(&jobs, || evict_bases(gpu));
    match threads {
        0 | 1 => in_turn()?,
        _ => match run_at_once(&jobs, threads) {
            Err(DeviceFault::OutOfMemory { .. }) => {
                evict(gpu);
                in_turn()?;
            }
            done => done?,
        },
    }
    drop(jobs);
    verdicts.into_iter().try_for_each(SelfTestVerdict::end)
}

/// Frees the memory of what the test has loaded.
fn evict(gpu: &ServingGpu) {
    evict_bases(gpu);
    gpu.ntt.evict_tables();
    gpu.words.transforms.evict_tables();
}

fn evict_bases(gpu: &ServingGpu) {
    while gpu.msm.resident().evict_idle() {}
}

/// The jobs of these sizes, with a verdict on each kind.
fn all_jobs<'t>(
    engine: &'t Arc<CudaEngine>,
    number: usize,
    sizes: &SelfTestSizes,
    verdicts: &'t [SelfTestVerdict<'t>; 7],
) -> Vec<SelfTestJob<'t>> {
    let ServingGpu { gpu, msm, ntt, points: checker, words, .. } = &engine.gpus[number];
    let steps = StepTest { engine, gpu: number };
    let threads = engine.cpu.threads();
    let [g1, g2, ntts, of_words, points, integers, bits] = verdicts;
    let mut jobs = Vec::new();
    for bases in sizes.points {
        jobs.push(SelfTestJob::new("MSMs", bases, move || match bases.group {
            Group::G1 => msm::test::<G1Affine>(g1, msm, bases.count),
            Group::G2 => msm::test::<G2Affine>(g2, msm, bases.count),
        }));
    }
    for batch in sizes.batches {
        let test = move || ntt::test(ntts, ntt, threads, batch);
        jobs.push(SelfTestJob::new("NTTs", batch, test));
    }
    for transform in sizes.words {
        let test = move || words::test(of_words, gpu, words, *transform);
        jobs.push(SelfTestJob::new("words", transform, test));
    }
    let test = move || test_points::<G1Affine>(points, checker);
    jobs.push(SelfTestJob::new("points", &Group::G1, test));
    let test = move || test_points::<G2Affine>(points, checker);
    jobs.push(SelfTestJob::new("points", &Group::G2, test));
    for factors in sizes.integers {
        let test = move || steps.test_product(integers, factors);
        jobs.push(SelfTestJob::new("products", factors, test));
        let test = move || steps.test_square(integers, factors);
        jobs.push(SelfTestJob::new("squares", factors, test));
    }
    for size in sizes.eliminations {
        let test = move || steps.test_eliminations(bits, size);
        jobs.push(SelfTestJob::new("eliminations", size, test));
    }
    jobs
}

/// Checks good points, then the same with one that is not on the curve, and decodes points.
fn test_points<A: CurvePoint>(
    verdict: &SelfTestVerdict<'_>,
    checker: &DevicePointChecker,
) -> Result<(), DeviceFault> {
    const COUNT: usize = 8;
    const BAD: usize = 5;
    let mut points = multiples::<A>(COUNT);
    let bytes = layout::points_as_bytes(&points).to_vec();
    let mut damaged = bytes.clone();
    // Replace its x by another point's.
    damaged.copy_within(..A::GROUP.coordinate_bytes(), BAD * A::GROUP.affine_bytes());
    let bad = BadElement { index: BAD as u64, problem: FieldProblem::NotOnCurve };
    for (bytes, expected) in [(bytes, Ok(())), (damaged, Err(bad))] {
        let found = checker.check(PointEncoding::Montgomery, &bytes, &mut points);
        let job = || format!("a check of points in {}", A::GROUP);
        verdict.add(job, found.map(|found| found == expected))?;
    }
    let expected = multiples::<A>(COUNT);
    let bytes = encode(PointEncoding::Uncompressed, &expected);
    let found = checker.check(PointEncoding::Uncompressed, &bytes, &mut points);
    let job = || format!("a decoding of points in {}", A::GROUP);
    verdict.add(job, found.map(|found| found == Ok(()) && points == expected))
}
