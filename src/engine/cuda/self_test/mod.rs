//! Tests the kernels of a GPU before its first job: MSMs in both groups, NTTs and point checks,
//! compared with the host. The test of single operations (`device/self_test`) does not cover how
//! the compiler, possibly the driver's at load time, combined them in these kernels.

mod msm;
mod ntt;
mod sizes;

use std::time::Instant;

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field};
use tracing::info_span;

pub use self::sizes::{EMULATED, NttBatch, ON_A_GPU, SelfTestSizes};
use super::{msm::GpuMsm, ntt::GpuNtt, point_check::DevicePointChecker};
use crate::{
    curve::{
        Fr, G1Affine, G2Affine, Group, layout,
        points::{BadElement, CurvePoint, PointEncoding},
    },
    device::{DeviceFault, Gpu, GpuUnavailable},
    error::{Error, FieldProblem},
};

/// Tests `gpu` with jobs of these sizes and returns a summary.
///
/// Errors: `Device` with `WrongResult` if a result differs from the host's or a job fails, with
/// `OutOfMemory` if the arena is too small for the test.
pub(super) fn run(
    gpu: &Gpu,
    sizes: &SelfTestSizes,
    computer: &GpuMsm,
    transformer: &GpuNtt,
    checker: &DevicePointChecker,
) -> Result<String, GpuUnavailable> {
    let begun = Instant::now();
    // Marks the log lines of these jobs.
    let _span = info_span!("self_test", device = gpu.identity().index).entered();
    let test = || {
        for &(group, count) in sizes.points {
            match group {
                Group::G1 => msm::test::<G1Affine>(computer, count)?,
                Group::G2 => msm::test::<G2Affine>(computer, count)?,
            }
        }
        while computer.evict_idle() {}
        sizes.batches.iter().try_for_each(|batch| ntt::test(transformer, batch))?;
        points::<G1Affine>(checker)?;
        points::<G2Affine>(checker)
    };
    let tested = test();
    // Evict what the test loaded.
    while computer.evict_idle() {}
    transformer.forget_tables();
    tested.map_err(|failure| GpuUnavailable::Device {
        index: gpu.identity().index,
        fault: failure.into_fault(gpu),
    })?;
    Ok(format!("in {} ms (MSM, NTT, point checks)", begun.elapsed().as_millis()))
}

enum SelfTestFailure {
    Wrong(String),
    /// The computation, and the error of its job.
    Job(String, Error),
}

impl SelfTestFailure {
    /// The fault to report. A GPU without memory for the test computes nothing wrong.
    fn into_fault(self, gpu: &Gpu) -> DeviceFault {
        match self {
            Self::Wrong(what) => DeviceFault::WrongResult(what),
            Self::Job(_, Error::Exhausted { .. }) => {
                let arena = gpu.arena();
                let (requested_bytes, free_bytes) = (arena.bytes(), arena.free_bytes());
                DeviceFault::OutOfMemory { requested_bytes, free_bytes }
            }
            Self::Job(what, error) => DeviceFault::WrongResult(format!("{what}: {error}")),
        }
    }
}

/// Pseudorandom elements, the same every time.
fn numbers(count: usize) -> Vec<Fr> {
    let first = Fr::GENERATOR.pow([0xca95_7a11]);
    let next = |last: &Fr| Some(last.square() + Fr::GENERATOR);
    std::iter::successors(Some(first), next).take(count).collect()
}

/// The most points that the host computes; more would take it too long.
const DISTINCT_MAX: usize = 1 << 12;

/// Points 1, 2, 3 ... times the generator: the host gets the sum with a single multiplication. They
/// repeat after `DISTINCT_MAX` points.
fn multiples<A: CurvePoint>(count: usize) -> Vec<A> {
    let one = A::generator().into_group();
    let sums = std::iter::successors(Some(one), |sum| Some(*sum + one));
    let sums: Vec<_> = sums.take(count.min(DISTINCT_MAX)).collect();
    let distinct = A::Group::normalize_batch(&sums);
    distinct.iter().copied().cycle().take(count).collect()
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
