//! Tests the kernels of a GPU before its first job: MSMs in both groups, NTTs over Fr and over a
//! 31-bit prime, products over that, and point checks, compared with the host. `step_self_test`
//! tests integers and matrices of bits. The test of single operations (`device/self_test`) does not
//! cover how the compiler, possibly the driver's at load time, combined them in these kernels.

mod msm;
mod ntt;
mod sizes;
mod verdict;
mod words;

use std::time::Instant;

use tracing::info_span;

use self::msm::multiples;
pub use self::sizes::{
    EMULATED, NttBatch, ON_A_GPU, SelfTestBases, SelfTestElimination, SelfTestFactors,
    SelfTestSizes, WordTransform,
};
pub(super) use self::verdict::SelfTestVerdict;
use super::{
    msm::GpuMsm, ntt::GpuNtt, point_check::DevicePointChecker, word_arithmetic::WordArithmetic,
};
use crate::{
    curve::{
        G1Affine, G2Affine, Group, layout,
        points::{BadElement, CurvePoint, PointEncoding, encode},
    },
    device::{DeviceFault, Gpu, GpuUnavailable},
    error::FieldProblem,
};

/// Tests `gpu` with jobs of these sizes and returns a summary.
///
/// Errors: `Device` with `WrongResult` if a result differs from the host's or a job fails, with
/// `OutOfMemory` if the arena is too small for any job of a kind.
pub(super) fn run(
    gpu: &Gpu,
    sizes: &SelfTestSizes,
    gpu_msm: &GpuMsm,
    gpu_ntt: &GpuNtt,
    words: &WordArithmetic,
    checker: &DevicePointChecker,
) -> Result<String, GpuUnavailable> {
    let begun = Instant::now();
    let index = gpu.identity().index;
    // Marks the log lines of these jobs.
    let _span = info_span!("self_test", device = index).entered();
    let test = || {
        let (g1, g2) = (SelfTestVerdict::new(gpu), SelfTestVerdict::new(gpu));
        for &SelfTestBases { group, count } in sizes.points {
            match group {
                Group::G1 => msm::test::<G1Affine>(&g1, gpu_msm, count)?,
                Group::G2 => msm::test::<G2Affine>(&g2, gpu_msm, count)?,
            }
        }
        g1.end()?;
        g2.end()?;
        while gpu_msm.resident().evict_idle() {}
        let ntts = SelfTestVerdict::new(gpu);
        sizes.batches.iter().try_for_each(|batch| ntt::test(&ntts, gpu_ntt, batch))?;
        ntts.end()?;
        let of_words = SelfTestVerdict::new(gpu);
        let mut transforms = sizes.words.iter();
        transforms.try_for_each(|transform| words::test(&of_words, gpu, words, *transform))?;
        of_words.end()?;
        let points = SelfTestVerdict::new(gpu);
        test_points::<G1Affine>(&points, checker)?;
        test_points::<G2Affine>(&points, checker)?;
        points.end()
    };
    let tested = test();
    // Evict what the test loaded.
    while gpu_msm.resident().evict_idle() {}
    gpu_ntt.evict_tables();
    words.transforms.evict_tables();
    tested.map_err(|fault| GpuUnavailable::Device { index, fault })?;
    Ok(format!("in {} ms (MSMs, NTTs, point checks)", begun.elapsed().as_millis()))
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
