//! Points in the kernels' representation, in device memory.

use ark_bls12_381::{Fq, Fq2, Fr, g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, PrimeField};
use ark_std::{UniformRand, rand::RngCore};
use bytemuck::cast_slice;
use capstan::{
    curve::{Group, layout, points::CurvePoint},
    device::{DeviceLease, DeviceSlice},
    msm::AlignedPoints,
};

use crate::{elements::KernelElement, gpu::KernelRig};

/// A curve, with its group's name on the device.
pub trait TestCurve: SWCurveConfig<BaseField: KernelElement, ScalarField = Fr> {
    const GROUP: Group;
}

impl TestCurve for g1::Config {
    const GROUP: Group = Group::G1;
}

impl TestCurve for g2::Config {
    const GROUP: Group = Group::G2;
}

/// Montgomery limbs, x before y; zeros for infinity.
pub fn limbs<P: TestCurve>(points: &[Affine<P>]) -> Vec<u64> {
    points.iter().flat_map(|point| [point.x.limbs(0), point.y.limbs(0)].concat()).collect()
}

/// Like [`limbs`], with the modulus added to every other y, as kernels may leave it.
pub fn loose_limbs<P: TestCurve>(points: &[Affine<P>]) -> Vec<u64> {
    let point =
        |(i, point): (usize, &Affine<P>)| [point.x.limbs(0), point.y.limbs(i as u64 % 2)].concat();
    points.iter().enumerate().flat_map(point).collect()
}

/// `count` distinct points of the subgroup.
pub fn distinct<P: TestCurve>(rng: &mut impl RngCore, count: usize) -> Vec<Affine<P>> {
    let [first, step] = [0; 2].map(|_| Projective::<P>::generator() * Fr::rand(rng));
    let points = std::iter::successors(Some(first), |point| Some(*point + step));
    Projective::normalize_batch(&points.take(count).collect::<Vec<_>>())
}

/// Leases memory for `count` points plus one, for the alignment that [`aligned_points`] needs.
pub fn lease_points<A: CurvePoint>(rig: &KernelRig, count: usize) -> DeviceLease {
    rig.lease::<u8>((count + 1) * A::GROUP.affine_bytes())
}

/// The aligned part of a lease of [`lease_points`].
pub fn aligned_points<A: CurvePoint>(lease: &DeviceLease, count: usize) -> AlignedPoints<'_> {
    let AlignedPoints { span, first } = AlignedPoints::of(lease.all(), A::GROUP).unwrap();
    AlignedPoints { span: span.slice(0, count * A::GROUP.affine_bytes()).unwrap(), first }
}

/// Copies points to the device.
pub fn write<A: CurvePoint>(rig: &KernelRig, to: DeviceSlice<'_, u8>, points: &[A]) {
    rig.write(to, layout::points_as_bytes(points));
}

/// Points in XYZZ coordinates below 2p with random ZZ; infinity has arbitrary x and y.
pub fn xyzz_limbs<P: TestCurve>(rng: &mut impl RngCore, points: &[Affine<P>]) -> Vec<u64> {
    let coordinates = |(i, point): (usize, &Affine<P>)| {
        let (z, more) = (P::BaseField::rand(rng), i as u64 % 2);
        let [zz, zzz] = [z * z, z * z * z];
        let zero = P::BaseField::ZERO;
        let [x, y, zz, zzz] = match point.xy() {
            None => [z, zz, zero, zero],
            Some((x, y)) => [x * zz, y * zzz, zz, zzz],
        };
        [x.limbs(more), y.limbs(0), zz.limbs(0), zzz.limbs(more)].concat()
    };
    points.iter().enumerate().flat_map(coordinates).collect()
}

/// Reads points in XYZZ coordinates; panics if one is not below 2p.
pub fn read_xyzz<A: CurvePoint>(rig: &KernelRig, from: DeviceSlice<'_, u8>) -> Vec<A> {
    let words: Vec<u64> = rig.read(from);
    let words: Vec<u64> = words.chunks(6).flat_map(reduced).collect();
    let words = match A::GROUP {
        Group::G1 => affine_words::<Fq>(&words),
        Group::G2 => affine_words::<Fq2>(&words),
    };
    layout::points_from_bytes(cast_slice(&words)).unwrap().to_vec()
}

/// x / zz and y / zzz of each point; zeros if zz is 0.
fn affine_words<E: KernelElement>(words: &[u64]) -> Vec<u64> {
    let point = |words: &[u64]| {
        let coordinate = |i| E::from_limbs(&words[i * E::LIMBS..][..E::LIMBS]).expect("below 2p");
        let [x, y, zz, zzz]: [E; 4] = std::array::from_fn(coordinate);
        assert_eq!(zz * zz * zz, zzz * zzz);
        let [by_zz, by_zzz] = [zz, zzz].map(|z| z.inverse().unwrap_or(E::ZERO));
        [(x * by_zz).limbs(0), (y * by_zzz).limbs(0)].concat()
    };
    words.chunks(4 * E::LIMBS).flat_map(point).collect()
}

/// The canonical form of an Fp element below 2p.
fn reduced(limbs: &[u64]) -> [u64; 6] {
    let mut integer = BigInt::<6>(limbs.try_into().expect("six limbs"));
    if integer >= Fq::MODULUS {
        integer.sub_with_borrow(&Fq::MODULUS);
    }
    integer.0
}

/// Reads affine points; panics if an x is not canonical or a y is not below 2p.
pub fn read<A: CurvePoint>(rig: &KernelRig, from: DeviceSlice<'_, u8>) -> Vec<A> {
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
