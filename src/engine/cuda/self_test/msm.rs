//! MSMs that use every method of sorting, bucket accumulation and bucket reduction.

use std::sync::Arc;

use super::{
    super::msm::GpuMsm,
    known_answers::{DISTINCT_MAX, multiples, numbers},
    sizes::{MSM_STEPS, MsmStep},
    verdict::SelfTestVerdict,
};
use crate::{
    curve::{
        Fr, layout,
        points::{Bases, CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    device::DeviceFault,
    engine::{EncodedScalars, JobControl},
    error::Result,
};

/// Runs all steps over `count` points.
pub fn test<A: CurvePoint>(
    verdict: &SelfTestVerdict<'_>,
    gpu_msm: &GpuMsm,
    count: usize,
) -> Result<(), DeviceFault> {
    let points = Arc::new(multiples::<A>(count));
    let vectors_max = MSM_STEPS.iter().map(|step| step.vectors).max().unwrap_or(1);
    let scalars = numbers(vectors_max * count);
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
    let equal = vec![scalars[0]; vectors_max * count];
    let expected_of_equal = sums_of(&equal);
    let mut bases = A::into_bases(PointSlice::new(points.clone()));
    for step in MSM_STEPS {
        if step.new_bases {
            bases = A::into_bases(PointSlice::new(Arc::new(points.to_vec())));
        }
        let job = || format!("an MSM of {count} points in {}, {}", A::GROUP, step.how);
        let (scalars, expected) = match step.equal_scalars {
            true => (&equal, &expected_of_equal),
            false => (&scalars, &expected),
        };
        let scalars = &scalars[..step.vectors * count];
        let found = sums::<A>(gpu_msm, &bases, &step, scalars);
        let expected = Some(&expected[..step.vectors]);
        verdict.add(job, found.map(|found| found.as_deref() == expected))?;
    }
    Ok(())
}

fn sums<A: CurvePoint>(
    gpu_msm: &GpuMsm,
    bases: &Bases,
    step: &MsmStep,
    scalars: &[Fr],
) -> Result<Option<Vec<A::Group>>> {
    let (count, control) = (scalars.len() / step.vectors, JobControl::default());
    let mut run = gpu_msm.run_split(bases.clone(), step.vectors, step.thresholds);
    for (vector, scalars) in scalars.chunks_exact(count).enumerate() {
        let piece = count.div_ceil(step.pieces);
        for (number, scalars) in scalars.chunks(piece).enumerate() {
            let source = layout::fr_as_bytes(scalars);
            let encoded = EncodedScalars::new(ScalarEncoding::Montgomery, scalars.len(), &source);
            run.absorb(vector, number * piece, &encoded, &control)?;
        }
    }
    Ok(A::from_sums(run.finish()?.sums))
}
