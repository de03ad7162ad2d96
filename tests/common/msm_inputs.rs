//! Inputs of MSMs from seeds, and arkworks' sums.

use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_std::{
    UniformRand,
    rand::{SeedableRng, rngs::StdRng},
};
use capstan::client::{CurvePoint, Fr};

/// The first multiples of a point, another one for each seed.
pub fn points<A: CurvePoint>(seed: u64, count: usize) -> Vec<A> {
    let step = A::Group::from(A::generator()) * Fr::from(2 * seed + 3);
    let all: Vec<_> =
        std::iter::successors(Some(step), |at| Some(*at + step)).take(count).collect();
    A::Group::normalize_batch(&all)
}

pub fn scalars(seed: u64, count: usize) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(|_| Fr::rand(&mut rng)).collect()
}

/// Shape: as many scalars as points.
pub fn sum<A: CurvePoint>(points: &[A], scalars: &[Fr]) -> A::Group {
    A::Group::msm(points, scalars).expect("equal lengths")
}
