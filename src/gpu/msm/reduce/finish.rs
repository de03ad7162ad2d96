//! Computes the result of each vector from the points that the device returns.

use std::cmp::Reverse;

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::{Projective, SWCurveConfig};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, Zero};

use super::{plan::ReducePlan, shape::HostTakeover};
use crate::curve::Group;

pub trait DeviceCurve: SWCurveConfig<BaseField: LooseCoordinate> {
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
    let coordinate = |index: usize| P::BaseField::from_loose(&bytes[index * width..][..width]);
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
/// Time: that of the plan's last doublings and points on one core; `takeover.rs` keeps both few.
pub fn combine_on_host<P: DeviceCurve>(plan: &ReducePlan, bytes: &[u8]) -> Vec<Projective<P>> {
    let points = weighted_points(plan);
    let width = 4 * P::GROUP.coordinate_bytes();
    let count = plan.output_points() as usize / plan.shape.vectors.max(1) as usize;
    let vectors = bytes.chunks_exact(count * width);
    vectors.map(|vector| horner(&points, vector, width)).collect()
}

/// A point of a vector, to be doubled before all points are added.
struct WeightedPoint {
    index: usize,
    doublings: u32,
}

/// The points with the most doublings first.
fn weighted_points(plan: &ReducePlan) -> Vec<WeightedPoint> {
    let shape = &plan.shape;
    let of_set = |shift| (0..shape.terms()).map(move |term| shift + shape.term_exponent(term));
    let doublings: Vec<u32> = match plan.host_step {
        HostTakeover::Terms => shape.shifts.iter().copied().flat_map(of_set).collect(),
        HostTakeover::Sets => shape.shifts.clone(),
        HostTakeover::Vectors => vec![0],
    };
    let point = |(index, doublings)| WeightedPoint { index, doublings };
    let mut points: Vec<_> = doublings.into_iter().enumerate().map(point).collect();
    points.sort_by_key(|point| Reverse(point.doublings));
    points
}

/// The sum of 2^doublings times each point, by Horner's rule.
fn horner<P: DeviceCurve>(points: &[WeightedPoint], bytes: &[u8], width: usize) -> Projective<P> {
    let after = points.iter().skip(1).map(|point| point.doublings).chain([0]);
    points.iter().zip(after).fold(Projective::ZERO, |mut sum, (point, after)| {
        sum += from_xyzz::<P>(&bytes[point.index * width..][..width]);
        for _ in after..point.doublings {
            sum.double_in_place();
        }
        sum
    })
}
