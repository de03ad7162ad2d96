//! What a GPU serves, once, before its first job: MSMs in both groups, NTTs and checks of points,
//! against the host's arithmetic. The test of single operations (`device/self_test`) does not see
//! how the compiler put them together in the kernels that are served, which a driver may have
//! compiled just now.

mod msm;
mod ntt;
mod sizes;

use std::time::Instant;

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field};
use tracing::info_span;

pub use self::sizes::{EMULATED, NttBatch, ON_A_GPU, SelfTestSizes};
use super::{msm::Computer, ntt::Transformer, points::DeviceChecker};
use crate::{
    curve::{
        Fr, G1Affine, G2Affine, Group, layout,
        points::{Bad, CurvePoint, PointEncoding},
    },
    device::{Fault, Gpu, Unusable},
    error::{Error, Problem},
};

/// Tests what `gpu` serves with jobs of these sizes, and says how it went.
///
/// Errors: `Device` with `Wrong` if a result is not the host's; what a job ran into.
pub(super) fn run(
    gpu: &Gpu,
    sizes: &SelfTestSizes,
    computer: &Computer,
    transformer: &Transformer,
    checker: &DeviceChecker,
) -> Result<String, Unusable> {
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
        sizes.batches.iter().try_for_each(|batch| ntt::test(transformer, batch))?;
        points::<G1Affine>(checker)?;
        points::<G2Affine>(checker)
    };
    let tested = test();
    // What the test brought to the device leaves it.
    while computer.make_room() {}
    transformer.forget_tables();
    tested.map_err(|failure| {
        let fault = Fault::Wrong(match failure {
            Failure::Wrong(what) => what,
            Failure::Job(what, error) => format!("{what}: {error}"),
        });
        Unusable::Device { index: gpu.identity().index, fault }
    })?;
    Ok(format!("MSM, NTT and checks of points in {} ms", begun.elapsed().as_millis()))
}

enum Failure {
    Wrong(String),
    /// The job did not end well.
    Job(String, Error),
}

/// Elements that look random and are the same every time.
fn numbers(count: usize) -> Vec<Fr> {
    let first = Fr::GENERATOR.pow([0xca95_7a11]);
    let next = |last: &Fr| Some(last.square() + Fr::GENERATOR);
    std::iter::successors(Some(first), next).take(count).collect()
}

/// Points differ up to this number, which is enough for the host to make.
const DISTINCT_MAX: usize = 1 << 12;

/// Points 1, 2, 3 ... times the generator, so that the host needs one multiplication for the sum;
/// from `DISTINCT_MAX` on they repeat.
fn multiples<A: CurvePoint>(count: usize) -> Vec<A> {
    let one = A::generator().into_group();
    let sums = std::iter::successors(Some(one), |sum| Some(*sum + one));
    let sums: Vec<_> = sums.take(count.min(DISTINCT_MAX)).collect();
    let distinct = A::Group::normalize_batch(&sums);
    distinct.iter().copied().cycle().take(count).collect()
}

/// Good points, and one among them that is not on the curve.
fn points<A: CurvePoint>(checker: &DeviceChecker) -> Result<(), Failure> {
    const COUNT: usize = 8;
    const BAD: usize = 5;
    let what = format!("a check of points in {}", A::GROUP);
    let mut points = multiples::<A>(COUNT);
    let bytes = layout::points_as_bytes(&points).to_vec();
    let mut damaged = bytes.clone();
    // Another point's x.
    let (width, half) = (A::GROUP.affine_bytes(), A::GROUP.coordinate_bytes());
    damaged.copy_within(..half, BAD * width);
    let bad = Bad { index: BAD as u64, problem: Problem::NotOnCurve };
    for (bytes, expected) in [(bytes, Ok(())), (damaged, Err(bad))] {
        let found = checker.check(PointEncoding::Montgomery, &bytes, &mut points);
        if found.map_err(|error| Failure::Job(what.clone(), error))? != expected {
            return Err(Failure::Wrong(what));
        }
    }
    Ok(())
}
