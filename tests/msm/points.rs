//! Points as the device holds them.

use ark_bls12_381::Fq;
use ark_ff::{BigInt, BigInteger, PrimeField};
use bytemuck::cast_slice;
use capstan::{
    curve::{layout, points::CurvePoint},
    device::{Lease, Span},
    msm::whole_points,
};

use crate::gpu::Rig;

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
