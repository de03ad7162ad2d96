//! The public keys that JSON Web Tokens are signed with: a JSON Web Key Set (RFC 7517).

use capstan_math::text::without_bom;
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

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
    /// A key is of an unknown kind or malformed.
    #[error(
        "keys[{0}] cannot be used: its kind is unknown, or its parameters are missing or have a \
         wrong length"
    )]
    Key(usize),
    /// Some keys are for signatures, but none of them can be used.
    #[error("{}", joined(.0))]
    NoUsableKey(Vec<KeySetProblem>),
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

/// The keys of a set that can verify signatures.
pub struct KeySet {
    pub keys: Vec<VerifyingKey>,
    /// Keys that may be for signatures, but cannot be used.
    pub left_out: Vec<KeySetProblem>,
}

#[derive(Deserialize)]
struct RawKeySet {
    keys: Vec<Value>,
}

/// Parses a key set. Symmetric keys and keys for encryption are ignored. A key that cannot be used
/// is left out, as RFC 7517 demands: the issuer may have kinds of keys that are newer than this
/// program, and a key that it has withdrawn must not stay in use because of another one.
///
/// Errors: the text is not a key set, or no key can be used.
pub fn parse(text: &str) -> Result<KeySet, KeySetProblem> {
    let set: RawKeySet = serde_json::from_slice(without_bom(text.as_bytes()))
        .map_err(|error| KeySetProblem::Json(error.to_string()))?;
    if set.keys.len() > KEYS_MAX {
        return Err(KeySetProblem::TooManyKeys);
    }
    let (mut keys, mut left_out) = (Vec::new(), Vec::new());
    for (index, key) in set.keys.into_iter().enumerate() {
        match serde_json::from_value::<Jwk>(key) {
            Ok(jwk) => match (algorithms(&jwk), verifying_key(&jwk)) {
                (algorithms, _) if algorithms.is_empty() => {}
                (algorithms, Some(key)) => {
                    keys.push(VerifyingKey { id: jwk.common.key_id, algorithms, key });
                }
                (_, None) => left_out.push(KeySetProblem::Key(index)),
            },
            Err(_) => left_out.push(KeySetProblem::Key(index)),
        }
    }
    match (keys.is_empty(), left_out.is_empty()) {
        (true, true) => Err(KeySetProblem::NoKey),
        (true, false) => Err(KeySetProblem::NoUsableKey(left_out)),
        (false, _) => Ok(KeySet { keys, left_out }),
    }
}

fn joined(problems: &[KeySetProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn verifying_key(jwk: &Jwk) -> Option<DecodingKey> {
    DecodingKey::from_jwk(jwk).ok().filter(|key| has_right_length(jwk, key))
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
