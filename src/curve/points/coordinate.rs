//! Coordinates, which are elements of Fq (G1) or Fq2 (G2): big-endian bytes and Montgomery limbs.

use ark_bls12_381::{Fq, Fq2};
use ark_ff::{BigInt, Field, PrimeField};

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
    fn read_canonical(bytes: &[u8]) -> Option<Self> {
        let mut limbs = [0; 6];
        for (limb, bytes) in limbs.iter_mut().rev().zip(bytes.as_chunks().0) {
            *limb = u64::from_be_bytes(*bytes);
        }
        Self::from_bigint(BigInt(limbs))
    }

    fn read_montgomery(bytes: &[u8]) -> Option<Self> {
        let mut limbs = [0; 6];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        let limbs = BigInt(limbs);
        (limbs < Self::MODULUS).then(|| Self::new_unchecked(limbs))
    }

    fn write_montgomery(&self, out: &mut [u8]) {
        for (limb, out) in self.0.0.iter().zip(out.as_chunks_mut().0) {
            *out = limb.to_le_bytes();
        }
    }
}

impl EncodedCoordinate for Fq2 {
    fn read_canonical(bytes: &[u8]) -> Option<Self> {
        let (c1, c0) = bytes.split_at(48);
        Some(Self::new(Fq::read_canonical(c0)?, Fq::read_canonical(c1)?))
    }

    fn read_montgomery(bytes: &[u8]) -> Option<Self> {
        let (c0, c1) = bytes.split_at(48);
        Some(Self::new(Fq::read_montgomery(c0)?, Fq::read_montgomery(c1)?))
    }

    fn write_montgomery(&self, out: &mut [u8]) {
        let (c0, c1) = out.split_at_mut(48);
        self.c0.write_montgomery(c0);
        self.c1.write_montgomery(c1);
    }
}
