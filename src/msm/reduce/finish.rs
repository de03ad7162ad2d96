//! Computes the result of each vector from the points that the device returns.

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::{Projective, SWCurveConfig};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, Zero};

use super::{plan::ReducePlan, shape::HostTakeover};
use crate::curve::Group;

/// A curve whose points the kernels return.
pub trait DeviceCurve: SWCurveConfig<BaseField: LooseCoordinate> {
    /// The group of its points.
    const GROUP: Group;
}

impl DeviceCurve for g1::Config {
    const GROUP: Group = Group::G1;
}

impl DeviceCurve for g2::Config {
    const GROUP: Group = Group::G2;
}

/// A coordinate as the kernels write it: Montgomery limbs, below twice the modulus.
pub trait LooseCoordinate: Field {
    /// Reads a coordinate and reduces it.
    fn from_loose(bytes: &[u8]) -> Self;
}

impl LooseCoordinate for Fq {
    fn from_loose(bytes: &[u8]) -> Self {
        let mut limbs = [0; 6];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        let mut value = BigInt::<6>(limbs);
        if value >= Self::MODULUS {
            value.sub_with_borrow(&Self::MODULUS);
        }
        Self::new_unchecked(value)
    }
}

impl LooseCoordinate for Fq2 {
    fn from_loose(bytes: &[u8]) -> Self {
        let (c0, c1) = bytes.split_at(bytes.len() / 2);
        Self::new(Fq::from_loose(c0), Fq::from_loose(c1))
    }
}

/// x = X / ZZ, y = Y / ZZZ in Jacobian form without a division: Z = ZZZ, X ZZ^2 / ZZZ^2 = X / ZZ.
fn from_xyzz<P: DeviceCurve>(bytes: &[u8]) -> Projective<P> {
    let width = P::GROUP.coordinate_bytes();
    let coordinate = |k: usize| P::BaseField::from_loose(&bytes[k * width..][..width]);
    let (zz, zzz) = (coordinate(2), coordinate(3));
    if zz.is_zero() {
        return Projective::ZERO;
    }
    let (x, y) = (coordinate(0) * zz.square(), coordinate(1) * zzz.square());
    Projective::new_unchecked(x, y, zzz)
}

/// The sum of each vector, from the [`ReducePlan::output_bytes`] bytes that [`super::Reducer::run`]
/// wrote for the plan's group.
///
/// Time: 0.4 us per doubling and 1.1 us per point in G1, three times as much in G2; the plan keeps
/// both few.
pub fn combine_on_host<P: DeviceCurve>(plan: &ReducePlan, bytes: &[u8]) -> Vec<Projective<P>> {
    let exponents = exponents(plan);
    let width = 4 * P::GROUP.coordinate_bytes();
    let points = plan.output_points() as usize / plan.shape.vectors.max(1) as usize;
    let vectors = bytes.chunks_exact(points * width);
    vectors.map(|vector| horner(&exponents, vector, width)).collect()
}

/// For each point of a vector, its index and how often it is doubled before all are added.
fn exponents(plan: &ReducePlan) -> Vec<(usize, u32)> {
    let shape = &plan.shape;
    let shifts = shape.shifts.iter().copied().enumerate();
    match plan.host_step {
        HostTakeover::Terms => {
            let terms = shape.terms();
            let of_set = |(set, shift): (usize, u32)| {
                let first = set * terms as usize;
                let own = (0..terms).zip(first..);
                own.map(move |(term, at)| (at, shift + shape.term_exponent(term)))
            };
            shifts.flat_map(of_set).collect()
        }
        HostTakeover::Sets => shifts.collect(),
        HostTakeover::Vectors => vec![(0, 0)],
    }
}

/// The sum of 2^exponent times each point, by Horner's rule.
fn horner<P: DeviceCurve>(exponents: &[(usize, u32)], bytes: &[u8], width: usize) -> Projective<P> {
    let mut points = exponents.to_vec();
    points.sort_by_key(|(_, exponent)| std::cmp::Reverse(*exponent));
    let mut at = points.first().map_or(0, |(_, exponent)| *exponent);
    let mut sum = Projective::ZERO;
    for (point, exponent) in points {
        for _ in exponent..at {
            sum.double_in_place();
        }
        at = exponent;
        sum += from_xyzz::<P>(&bytes[point * width..][..width]);
    }
    for _ in 0..at {
        sum.double_in_place();
    }
    sum
}
