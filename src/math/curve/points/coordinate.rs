//! Coordinates, which are elements of Fq (G1) or Fq2 (G2): big-endian bytes and Montgomery limbs.

use ark_bls12_381::{Fq, Fq2};
use ark_ff::{BigInt, Field, PrimeField};
use bytemuck::pod_read_unaligned;

/// A coordinate of a point. The readers check that it is below p.
pub trait EncodedCoordinate: Field {
    /// Reads big-endian bytes, c1 before c0. `None` if a component is not below p.
    fn read_canonical(bytes: &[u8]) -> Option<Self>;
    /// Reads Montgomery limbs, c0 before c1. `None` if a component is not below p.
    fn read_montgomery(bytes: &[u8]) -> Option<Self>;
    /// Writes the form that [`Self::read_montgomery`] reads.
    fn write_montgomery(&self, out: &mut [u8]);
}

impl EncodedCoordinate for Fq {
    #[inline]
    fn read_canonical(bytes: &[u8]) -> Option<Self> {
        let mut limbs = pod_read_unaligned::<[[u8; 8]; 6]>(bytes).map(u64::from_be_bytes);
        limbs.reverse();
        Self::from_bigint(BigInt(limbs))
    }

    #[inline]
    fn read_montgomery(bytes: &[u8]) -> Option<Self> {
        let limbs = BigInt(pod_read_unaligned::<[[u8; 8]; 6]>(bytes).map(u64::from_le_bytes));
        (limbs < Self::MODULUS).then(|| Self::new_unchecked(limbs))
    }

    #[inline]
    fn write_montgomery(&self, out: &mut [u8]) {
        out.copy_from_slice(bytemuck::bytes_of(&self.0.0.map(u64::to_le_bytes)));
    }
}

impl EncodedCoordinate for Fq2 {
    #[inline]
    fn read_canonical(bytes: &[u8]) -> Option<Self> {
        let (c1, c0) = bytes.split_at(48);
        Some(Self::new(Fq::read_canonical(c0)?, Fq::read_canonical(c1)?))
    }

    #[inline]
    fn read_montgomery(bytes: &[u8]) -> Option<Self> {
        let (c0, c1) = bytes.split_at(48);
        Some(Self::new(Fq::read_montgomery(c0)?, Fq::read_montgomery(c1)?))
    }

    #[inline]
    fn write_montgomery(&self, out: &mut [u8]) {
        let (c0, c1) = out.split_at_mut(48);
        self.c0.write_montgomery(c0);
        self.c1.write_montgomery(c1);
    }
}
