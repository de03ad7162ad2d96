//! Checks of keys with which proofs could be forged, would not hide the witness, or would not
//! verify.

use std::collections::HashMap;

use ark_bls12_381::Bls12_381;
use ark_ec::{
    AffineRepr,
    pairing::{Pairing, PairingOutput},
};
use ark_groth16::{ProvingKey, VerifyingKey};

/// Why proofs of a key prove nothing, do not hide the witness, or do not verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakKey {
    /// With such a key, proofs can be forged or would not be blinded, or none would verify.
    #[error("{part} of the key is the point at infinity")]
    Infinity {
        /// The part of the key.
        part: &'static str,
    },
    /// Two points are equal or opposite, for example because nobody contributed to phase 2.
    #[error(
        "{first} and {second} of the key are equal or opposite, so anyone can forge proofs: was \
         the key made without a contribution to phase 2?"
    )]
    Equal {
        /// A part of the key.
        first: &'static str,
        /// The other part.
        second: &'static str,
    },
    /// Proofs verify for any value of this public input, or can be forged.
    #[error("gamma_abc_g1[{index}] of the key is the point at infinity, so proofs can be forged")]
    InfiniteInput {
        /// The index of the point (index 0: the constant).
        index: usize,
    },
    /// Proofs verify for other public inputs, too, or can be forged.
    #[error(
        "gamma_abc_g1[{index}] and {other} of the key are equal or opposite, so proofs can be \
         forged"
    )]
    EqualInput {
        /// The index of the point (index 0: the constant).
        index: usize,
        /// The part of the key that has this point or its opposite.
        other: String,
    },
    /// Proofs would not verify, because beta or delta differs between G1 and G2.
    #[error(
        "beta_g1 and delta_g1 of the key do not belong to its beta_g2 and delta_g2, so no proof \
         would verify: are they from different keys?"
    )]
    MismatchedHalves,
}

/// Checks that no proof of a key can be forged because its points are infinity, equal or opposite.
/// A proof (A, B, C) verifies if e(A, B) = e(alpha, beta) e(I, gamma) e(C, delta), for the sum I of
/// multiples of `gamma_abc_g1` by the public inputs:
///
/// - If gamma is delta or its opposite, A = alpha, B = beta and C = -I or I verify; other pairs of
///   beta, gamma and delta allow similar proofs.
/// - If public inputs exist with I at infinity, A = alpha, B = beta and C at infinity verify.
///
/// Errors: the first weakness.
pub fn check_verifying_key(key: &VerifyingKey<Bls12_381>) -> Result<(), WeakKey> {
    let in_g2 = [("beta_g2", key.beta_g2), ("gamma_g2", key.gamma_g2), ("delta_g2", key.delta_g2)];
    check_finite("alpha_g1", key.alpha_g1)?;
    in_g2.into_iter().try_for_each(|(part, point)| check_finite(part, point))?;
    // Gamma and delta first: that pair shows the cause.
    for [(first, point), (second, other)] in
        [[in_g2[1], in_g2[2]], [in_g2[0], in_g2[1]], [in_g2[0], in_g2[2]]]
    {
        if point.x == other.x {
            return Err(WeakKey::Equal { first, second });
        }
    }
    let mut known = HashMap::from([(key.alpha_g1.x, None)]);
    for (index, point) in key.gamma_abc_g1.iter().enumerate() {
        if point.is_zero() {
            return Err(WeakKey::InfiniteInput { index });
        }
        if let Some(other) = known.insert(point.x, Some(index)) {
            let name = |index: usize| format!("gamma_abc_g1[{index}]");
            let other = other.map_or("alpha_g1".to_owned(), name);
            return Err(WeakKey::EqualInput { index, other });
        }
    }
    Ok(())
}

/// Checks the verifying key, and that the points that blind proofs are not infinity and have the
/// same ratio in both groups. This takes milliseconds. The points must be valid.
///
/// Errors: the first weakness.
pub fn check_proving_key(key: &ProvingKey<Bls12_381>) -> Result<(), WeakKey> {
    check_verifying_key(&key.vk)?;
    check_finite("beta_g1", key.beta_g1)?;
    check_finite("delta_g1", key.delta_g1)?;
    // Keys of arkworks have random generators, which the key does not contain. For any generators,
    // an intact key satisfies e(beta_g1, delta_g2) = e(delta_g1, beta_g2).
    let in_g2 = [key.vk.delta_g2, key.vk.beta_g2];
    let product = Bls12_381::multi_miller_loop([key.beta_g1, -key.delta_g1], in_g2);
    // `None` is possible for points that are not on their curves: `Bls12_381::pairing` panics.
    match Bls12_381::final_exponentiation(product) {
        Some(product) if product == PairingOutput::default() => Ok(()),
        _ => Err(WeakKey::MismatchedHalves),
    }
}

fn check_finite(part: &'static str, point: impl AffineRepr) -> Result<(), WeakKey> {
    if point.is_zero() { Err(WeakKey::Infinity { part }) } else { Ok(()) }
}
