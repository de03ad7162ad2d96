//! The public keys that JSON Web Tokens are signed with: a JSON Web Key Set (RFC 7517).

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{
        AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse,
    },
};

use crate::files::without_bom;

/// More keys than issuers publish.
const KEYS_MAX: usize = 16;
/// The smallest modulus of an RSA key, in bytes.
const RSA_BYTES_MIN: usize = 256;

/// Why a key set cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetProblem {
    /// The text is not a key set.
    #[error("not a JSON Web Key Set: {0}")]
    Json(String),
    /// A key is malformed.
    #[error("keys[{0}] is malformed: its parameters are missing, or have a wrong length")]
    Key(usize),
    /// Nothing could verify a signature.
    #[error("no key can verify signatures: RSA (2048 bits), P-256, P-384 or Ed25519 is needed")]
    NoKey,
    /// There are too many keys.
    #[error("more than {KEYS_MAX} keys")]
    TooManyKeys,
}

/// A public key, and which algorithms it may verify.
pub struct VerifyingKey {
    pub id: Option<String>,
    /// All of one family, so that no key is used as another kind of key.
    pub algorithms: Vec<Algorithm>,
    pub key: DecodingKey,
}

/// Parses a key set. Symmetric keys, keys for encryption, and kinds that are not supported are
/// left out.
pub fn parse(text: &str) -> Result<Vec<VerifyingKey>, KeySetProblem> {
    let set: JwkSet = serde_json::from_slice(without_bom(text.as_bytes()))
        .map_err(|error| KeySetProblem::Json(error.to_string()))?;
    if set.keys.len() > KEYS_MAX {
        return Err(KeySetProblem::TooManyKeys);
    }
    let mut keys = Vec::new();
    for (index, jwk) in set.keys.iter().enumerate() {
        let algorithms = algorithms(jwk);
        if algorithms.is_empty() {
            continue;
        }
        let key = DecodingKey::from_jwk(jwk).ok().filter(|key| has_right_length(jwk, key));
        let key = key.ok_or(KeySetProblem::Key(index))?;
        keys.push(VerifyingKey { id: jwk.common.key_id.clone(), algorithms, key });
    }
    if keys.is_empty() { Err(KeySetProblem::NoKey) } else { Ok(keys) }
}

/// The algorithms that a key may verify; none if it is not for signatures or not supported.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    let common = &jwk.common;
    let is_for_signatures = common
        .public_key_use
        .as_ref()
        .is_none_or(|usage| *usage == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    let of_kind = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
            vec![Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => vec![],
    };
    let may_verify = |algorithm: &Algorithm| {
        let named = common.key_algorithm;
        is_for_signatures && named.is_none_or(|named| named == KeyAlgorithm::from(*algorithm))
    };
    of_kind.into_iter().filter(may_verify).collect()
}

fn has_right_length(jwk: &Jwk, key: &DecodingKey) -> bool {
    use jsonwebtoken::DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
    match (&jwk.algorithm, key.kind()) {
        (AlgorithmParameters::RSA(_), RsaModulusExponent { n, e }) => {
            let leading_zeros = n.iter().take_while(|byte| **byte == 0).count();
            n.len() - leading_zeros >= RSA_BYTES_MIN && !e.is_empty()
        }
        (AlgorithmParameters::EllipticCurve(params), SecretOrDer(point)) => {
            point.len() == if params.curve == EllipticCurve::P256 { 65 } else { 97 }
        }
        (AlgorithmParameters::OctetKeyPair(_), SecretOrDer(point)) => point.len() == 32,
        _ => false,
    }
}
