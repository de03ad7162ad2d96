//! MSMs that use every method of sorting, bucket accumulation and bucket reduction.

use std::sync::Arc;

use super::{
    super::msm::GpuMsm,
    DISTINCT_MAX, SelfTestFailure, multiples, numbers,
    sizes::{MSM_STEPS, MsmStep},
};
use crate::{
    curve::{
        Fr, layout,
        points::{Bases, CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, JobControl},
    error::Error,
};

/// Runs all steps over `count` points.
pub fn test<A: CurvePoint>(computer: &GpuMsm, count: usize) -> Result<(), SelfTestFailure> {
    let points = Arc::new(multiples::<A>(count));
    let most = MSM_STEPS.iter().map(|step| step.vectors).max().unwrap_or(1);
    let scalars = numbers(most * count);
    let total = |vector: &[Fr]| -> Fr {
        (1..=DISTINCT_MAX as u64)
            .cycle()
            .zip(vector)
            .map(|(times, scalar)| *scalar * Fr::from(times))
            .sum()
    };
    let sums_of = |scalars: &[Fr]| -> Vec<A::Group> {
        scalars.chunks_exact(count).map(|vector| A::generator() * total(vector)).collect()
    };
    let expected = sums_of(&scalars);
    let equal = vec![scalars[0]; most * count];
    let expected_of_equal = sums_of(&equal);
    let mut bases = A::into_bases(PointSlice::new(points.clone()));
    for step in MSM_STEPS {
        if step.new_bases {
            bases = A::into_bases(PointSlice::new(Arc::new(points.to_vec())));
        }
        let what = || format!("an MSM of {count} points in {}, {}", A::GROUP, step.how);
        let (scalars, expected) = match step.equal_scalars {
            true => (&equal, &expected_of_equal),
            false => (&scalars, &expected),
        };
        let scalars = &scalars[..step.vectors * count];
        let failed = |error| SelfTestFailure::Job(what(), error);
        let found = sums::<A>(computer, &bases, &step, scalars).map_err(failed)?;
        if found.as_deref() != Some(&expected[..step.vectors]) {
            return Err(SelfTestFailure::Wrong(what()));
        }
    }
    Ok(())
}

fn sums<A: CurvePoint>(
    computer: &GpuMsm,
    bases: &Bases,
    step: &MsmStep,
    scalars: &[Fr],
) -> Result<Option<Vec<A::Group>>, Error> {
    let (count, control) = (scalars.len() / step.vectors, JobControl::default());
    let mut run = computer.run_with_thresholds(bases.clone(), step.vectors, step.thresholds);
    for (vector, scalars) in scalars.chunks_exact(count).enumerate() {
        let piece = count.div_ceil(step.pieces);
        for (number, scalars) in scalars.chunks(piece).enumerate() {
            let source = layout::fr_as_bytes(scalars);
            let encoded = EncodedScalars::new(ScalarEncoding::Montgomery, scalars.len(), &source);
            run.absorb(vector, number * piece, &encoded, &control)?;
        }
    }
    Ok(A::from_sums(run.finish()?.0))
}
