//! Blinds the sums of a proof. Only C needs the sum that the server computes last.

use ark_bls12_381::Bls12_381;
use ark_ec::CurveGroup;
use ark_ff::UniformRand;
use ark_groth16::Proof;
use ark_std::rand::Rng;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{key::KeyPoints, product_sum::product_sum};
use crate::curve::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};

/// The random numbers that hide the witness. They are not sent to the server.
#[derive(Clone, Copy, Zeroize)]
pub struct Blinding {
    /// Blinds A.
    pub r: Fr,
    /// Blinds B.
    pub s: Fr,
}

impl Blinding {
    /// Draws r, then s, as `ark-groth16` does.
    pub fn draw(random: &mut impl Rng) -> Self {
        let r = Fr::rand(random);
        Self { r, s: Fr::rand(random) }
    }
}

/// The sums of a proof over the assignment only.
#[derive(Clone, Copy, PartialEq, Eq, Zeroize)]
pub struct AssignmentSums {
    pub a: G1Projective,
    pub b_g1: G1Projective,
    pub b_g2: G2Projective,
}

/// The multiples of delta that blind a proof. They do not depend on the sums, so they are computed
/// while the server works.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct BlindedDelta {
    blinding: Blinding,
    r: G1Projective,
    s: G1Projective,
    s_g2: G2Projective,
    rs: G1Projective,
}

impl BlindedDelta {
    pub fn new(points: &KeyPoints, blinding: &Blinding) -> Self {
        let delta = points.delta_g1;
        let &Blinding { r, s } = blinding;
        let rs = delta * (r * s);
        Self { blinding: *blinding, r: delta * r, s: delta * s, s_g2: points.delta_g2 * s, rs }
    }

    /// Adds the key's points and the blinding.
    pub fn blind(&self, points: &KeyPoints, sums: AssignmentSums) -> BlindedSums {
        let Blinding { r, s } = self.blinding;
        let a = sums.a + points.alpha_g1 + self.r;
        let b_g1 = sums.b_g1 + points.beta_g1 + self.s;
        let b = sums.b_g2 + points.beta_g2 + self.s_g2;
        let of_c = product_sum(a, s, b_g1, r) - self.rs;
        BlindedSums { sums, a: a.into_affine(), b: b.into_affine(), of_c }
    }
}

/// A proof but for the sum over l_query and h_query.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct BlindedSums {
    pub sums: AssignmentSums,
    a: G1Affine,
    b: G2Affine,
    /// What C has in addition to that sum.
    of_c: G1Projective,
}

impl BlindedSums {
    /// Adds the sum over l_query and h_query.
    pub fn finish(&self, c: G1Projective) -> Proof<Bls12_381> {
        Proof { a: self.a, b: self.b, c: (c + self.of_c).into_affine() }
    }
}
