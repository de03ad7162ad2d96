//! MSMs by every way that passes are sorted, summed and reduced.

use std::sync::Arc;

use super::{
    super::msm::Computer,
    DISTINCT_MAX, Failure, multiples, numbers,
    sizes::{MSM_STEPS, MsmStep},
};
use crate::{
    curve::{
        Fr, layout,
        points::{Bases, CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{Control, Encoded},
    error::Error,
};

/// All steps over `count` points.
pub fn test<A: CurvePoint>(computer: &Computer, count: usize) -> Result<(), Failure> {
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
    let mut bases = A::bases(PointSlice::new(points.clone()));
    for step in MSM_STEPS {
        if step.new_bases {
            bases = A::bases(PointSlice::new(Arc::new(points.to_vec())));
        }
        let what = || format!("an MSM of {count} points in {}, {}", A::GROUP, step.how);
        let (scalars, expected) = match step.equal_scalars {
            true => (&equal, &expected_of_equal),
            false => (&scalars, &expected),
        };
        let scalars = &scalars[..step.vectors * count];
        let failed = |error| Failure::Job(what(), error);
        let found = sums::<A>(computer, &bases, &step, scalars).map_err(failed)?;
        if found.as_deref() != Some(&expected[..step.vectors]) {
            return Err(Failure::Wrong(what()));
        }
    }
    Ok(())
}

fn sums<A: CurvePoint>(
    computer: &Computer,
    bases: &Bases,
    step: &MsmStep,
    scalars: &[Fr],
) -> Result<Option<Vec<A::Group>>, Error> {
    let (count, control) = (scalars.len() / step.vectors, Control::default());
    let mut run = computer.run_cut(bases.clone(), step.vectors, step.cuts);
    for (vector, scalars) in scalars.chunks_exact(count).enumerate() {
        let piece = count.div_ceil(step.pieces);
        for (number, scalars) in scalars.chunks(piece).enumerate() {
            let source = layout::fr_as_bytes(scalars);
            let encoded = Encoded::new(ScalarEncoding::Montgomery, scalars.len(), &source);
            run.absorb(vector, number * piece, &encoded, &control)?;
        }
    }
    Ok(A::of_sums(run.finish()?.0))
}
