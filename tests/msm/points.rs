//! Points as kernels see them.

use ark_bls12_381::{Fr, g1, g2};
use ark_ec::{
    CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_std::{UniformRand, rand::RngCore};
use capstan::curve::Group;

use crate::values::Element;

/// A curve of the device's.
pub trait Curve: SWCurveConfig<BaseField: Element, ScalarField = Fr> {
    const GROUP: Group;
}

impl Curve for g1::Config {
    const GROUP: Group = Group::G1;
}

impl Curve for g2::Config {
    const GROUP: Group = Group::G2;
}

/// Montgomery limbs, x before y; infinity is zeros.
pub fn limbs<P: Curve>(points: &[Affine<P>]) -> Vec<u64> {
    points.iter().flat_map(|point| [point.x.limbs(0), point.y.limbs(0)].concat()).collect()
}

/// The same with every other y as large as the kernels' own may be: the modulus more.
pub fn loose_limbs<P: Curve>(points: &[Affine<P>]) -> Vec<u64> {
    let point =
        |(i, point): (usize, &Affine<P>)| [point.x.limbs(0), point.y.limbs(i as u64 % 2)].concat();
    points.iter().enumerate().flat_map(point).collect()
}

/// Different points of the subgroup, `count` of them.
pub fn different<P: Curve>(rng: &mut impl RngCore, count: usize) -> Vec<Affine<P>> {
    let [first, step] = [0; 2].map(|_| Projective::<P>::generator() * Fr::rand(rng));
    let points = std::iter::successors(Some(first), |point| Some(*point + step));
    Projective::normalize_batch(&points.take(count).collect::<Vec<_>>())
}
