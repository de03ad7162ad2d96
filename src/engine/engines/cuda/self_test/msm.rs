//! MSMs that use every method of sorting, bucket accumulation and bucket reduction.

use std::{iter::successors, sync::Arc};

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field};

use super::{
    super::msm::GpuMsm,
    sizes::{MSM_TRIALS, MsmTrial},
    verdict::SelfTestVerdict,
};
use crate::{
    curve::{
        Fr, layout,
        points::{Bases, CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    device::DeviceFault,
    engines::{EncodedScalars, JobControl},
    error::Result,
};

/// Maximum number of distinct points: the host computes them one by one.
const DISTINCT_MAX: usize = 1 << 12;

pub fn test<A: CurvePoint>(
    verdict: &SelfTestVerdict<'_>,
    gpu_msm: &GpuMsm,
    count: usize,
) -> Result<(), DeviceFault> {
    let points = Arc::new(multiples::<A>(count));
    let vectors_max = MSM_TRIALS.iter().map(|step| step.vectors).max().unwrap_or(1);
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
    for step in MSM_TRIALS {
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
    step: &MsmTrial,
    scalars: &[Fr],
) -> Result<Option<Vec<A::Group>>> {
    let count = scalars.len() / step.vectors;
    let control = JobControl::default();
    let mut run = gpu_msm.run(bases.clone(), step.vectors, step.thresholds);
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

/// Pseudorandom elements, the same every time.
fn numbers(count: usize) -> Vec<Fr> {
    let first = Fr::GENERATOR.pow([0xca95_7a11]);
    let next = |last: &Fr| Some(last.square() + Fr::GENERATOR);
    successors(Some(first), next).take(count).collect()
}

/// Points 1, 2, 3 ... times the generator: the host gets the sum with a single multiplication. They
/// repeat after `DISTINCT_MAX` points.
pub fn multiples<A: CurvePoint>(count: usize) -> Vec<A> {
    let one = A::generator().into_group();
    let sums = successors(Some(one), |sum| Some(*sum + one));
    let sums: Vec<_> = sums.take(count.min(DISTINCT_MAX)).collect();
    let distinct = A::Group::normalize_batch(&sums);
    distinct.iter().copied().cycle().take(count).collect()
}
