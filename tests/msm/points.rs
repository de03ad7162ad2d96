//! Points as kernels see them, and as the device holds them.

use ark_bls12_381::{Fq, Fr, g1, g2};
use ark_ec::{
    CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{BigInt, BigInteger, PrimeField};
use ark_std::{UniformRand, rand::RngCore};
use bytemuck::cast_slice;
use capstan::{
    curve::{Group, layout, points::CurvePoint},
    device::{Lease, Span},
    msm::whole_points,
};

use crate::{gpu::Rig, values::Element};

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

/// Memory for `count` points, where references can name them.
pub fn room<A: CurvePoint>(rig: &Rig, count: usize) -> Lease {
    rig.room::<u8>((count + 1) * A::GROUP.affine_bytes())
}

/// `count` points of what [`room`] gave, and the number of the first.
pub fn numbered<A: CurvePoint>(lease: &Lease, count: usize) -> (Span<'_, u8>, u32) {
    let (whole, number) = whole_points(lease.all(), A::GROUP).unwrap();
    (whole.part(0, count * A::GROUP.affine_bytes()).unwrap(), number)
}

/// Copies points to the device.
pub fn write<A: CurvePoint>(rig: &Rig, to: Span<'_, u8>, points: &[A]) {
    rig.write(to, layout::points_as_bytes(points));
}

/// Reads points whose x is canonical and whose y is below 2p; panics at others.
pub fn read<A: CurvePoint>(rig: &Rig, from: Span<'_, u8>) -> Vec<A> {
    let mut words: Vec<u64> = rig.read(from);
    let coordinate = A::GROUP.coordinate_bytes() / 8;
    for (i, limbs) in words.chunks_mut(6).enumerate() {
        let mut integer = BigInt::<6>(limbs.try_into().unwrap());
        let is_y = i * 6 / coordinate % 2 == 1;
        if is_y && integer >= Fq::MODULUS {
            integer.sub_with_borrow(&Fq::MODULUS);
        }
        assert!(integer < Fq::MODULUS, "{} of point {}", if is_y { "y" } else { "x" }, i / 12);
        limbs.copy_from_slice(&integer.0);
    }
    layout::points_from_bytes(cast_slice(&words)).unwrap().to_vec()
}
