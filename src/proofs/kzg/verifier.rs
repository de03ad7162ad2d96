//! Checks of openings, by pairings in this process.

use ark_bls12_381::{Bls12_381, G1Projective, G2Projective};
use ark_ec::{AffineRepr, VariableBaseMSM, pairing::Pairing};
use ark_ff::{Field, Zero};

use super::prover::check_points;
use crate::{
    curve::{Fr, G1Affine, G2Affine},
    error::{FieldProblem, InputError, Result},
};

/// Checks openings with a few powers of tau in both groups.
///
/// Points of a proof that come from others must have been checked to be in the subgroup, as
/// arkworks' `deserialize_compressed` does.
#[derive(Debug, Clone)]
pub struct KzgVerifier {
    g1: Vec<G1Affine>,
    g2: Vec<G2Affine>,
}

impl KzgVerifier {
    /// A verifier of openings at up to k points, from k powers of tau in G1 and k + 1 in G2, each
    /// beginning with the generator. Further powers are not kept.
    ///
    /// Errors: `Invalid` if there are fewer than one power in G1 or two in G2.
    pub fn new(g1: &[G1Affine], g2: &[G2Affine]) -> Result<Self> {
        let points_max = g1.len().min(g2.len().saturating_sub(1));
        if points_max == 0 {
            return Err(InputError::field("powers of tau", FieldProblem::Missing));
        }
        Ok(Self { g1: g1[..points_max].to_vec(), g2: g2[..=points_max].to_vec() })
    }

    /// The most points of an opening.
    pub fn points_max(&self) -> usize {
        self.g1.len()
    }

    /// Whether `value` is that of the committed polynomial at `point`.
    ///
    /// Errors: none for these arguments.
    pub fn verify(
        &self,
        commitment: G1Affine,
        point: Fr,
        value: Fr,
        proof: G1Affine,
    ) -> Result<bool> {
        self.verify_batch(&[commitment], &[point], &[vec![value]], Fr::ONE, proof)
    }

    /// Whether `values` are those of the committed polynomials at all points: for each polynomial,
    /// its values in the order of the points. `challenge` is that of
    /// [`KzgProver::open_batch`](super::KzgProver::open_batch).
    ///
    /// Errors: `Invalid` if there are no commitments or no points, too many points, or two
    /// equal ones, or if the numbers of values do not match.
    pub fn verify_batch(
        &self,
        commitments: &[G1Affine],
        points: &[Fr],
        values: &[Vec<Fr>],
        challenge: Fr,
        proof: G1Affine,
    ) -> Result<bool> {
        check_points(points)?;
        if commitments.is_empty() {
            return Err(InputError::field("commitments", FieldProblem::Missing));
        }
        let max = self.points_max() as u64;
        if points.len() as u64 > max {
            let problem = FieldProblem::TooLong { max, got: points.len() as u64 };
            return Err(InputError::field("points", problem));
        }
        let length = |expected: usize, got: usize| match expected == got {
            true => Ok(()),
            false => {
                let (expected, got) = (expected as u64, got as u64);
                Err(InputError::field("values", FieldProblem::Length { expected, got }))
            }
        };
        length(commitments.len(), values.len())?;
        values.iter().try_for_each(|row| length(points.len(), row.len()))?;

        let mut combined = G1Projective::zero();
        let mut factor = Fr::ONE;
        let mut combined_values = vec![Fr::zero(); points.len()];
        for (commitment, row) in commitments.iter().zip(values) {
            combined += *commitment * factor;
            combined_values.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
            factor *= challenge;
        }
        // f - r, for r with these values, is a multiple of the vanishing polynomial z.
        let (r, z) = interpolate(points, &combined_values);
        let remainder: G1Projective = sum(&self.g1, &r);
        let divisor: G2Projective = sum(&self.g2, &z);
        let left = combined - remainder;
        let product = Bls12_381::multi_pairing(
            [left, -proof.into_group()],
            [self.g2[0].into_group(), divisor],
        );
        Ok(product.is_zero())
    }
}

/// The commitment to a polynomial that is at most as long as `powers`.
fn sum<G: VariableBaseMSM<ScalarField = Fr>>(powers: &[G::MulBase], coefficients: &[Fr]) -> G {
    G::msm_unchecked(&powers[..coefficients.len()], coefficients)
}

/// The coefficients of the polynomial r with these values at distinct points, and those of z, the
/// product of all X - point. Newton's interpolation.
fn interpolate(points: &[Fr], values: &[Fr]) -> (Vec<Fr>, Vec<Fr>) {
    let mut r = vec![Fr::zero(); points.len()];
    let mut z = vec![Fr::ONE];
    for (point, value) in points.iter().zip(values) {
        let missing = *value - evaluate(&r, *point);
        let at_point = evaluate(&z, *point);
        let factor = missing * at_point.inverse().expect("the points are distinct");
        r.iter_mut().zip(&z).for_each(|(r, z)| *r += factor * z);
        z.insert(0, Fr::zero());
        for index in 0..z.len() - 1 {
            let above = z[index + 1];
            z[index] -= *point * above;
        }
    }
    (r, z)
}

fn evaluate(coefficients: &[Fr], point: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::zero(), |sum, coefficient| sum * point + coefficient)
}
