//! An issuer of JSON Web Tokens, which can also make wrong ones.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RsaKeyPair,
    },
};
use serde_json::{Value, json};

/// An RSA key of 2048 bits for tests, PKCS #8. ring cannot generate one.
const RSA_KEY: &[u8] = include_bytes!("../data/jwt_rsa_key.pk8");

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "capstan-test";

pub enum SigningKey {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl SigningKey {
    pub fn es256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Es256(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    pub fn eddsa() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::EdDsa(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub fn rs256() -> Self {
        Self::Rs256(RsaKeyPair::from_pkcs8(RSA_KEY).unwrap())
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    /// The public key as a JSON Web Key.
    pub fn jwk(&self, id: &str) -> Value {
        let mut jwk = match self {
            Self::Es256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Self::EdDsa(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key()) })
            }
            Self::Rs256(key) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "n": encode(n), "e": encode(e) })
            }
        };
        jwk["kid"] = json!(id);
        jwk["use"] = json!("sig");
        jwk
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(message).as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with these claims.
    pub fn token(&self, id: &str, claims: &Value) -> String {
        self.token_with(&json!({ "alg": self.algorithm(), "kid": id, "typ": "JWT" }), claims)
    }

    /// A token with this header, which may lie.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encode(signature))
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string()), encode(claims.to_string()))
}

/// A token that claims to need no signature.
pub fn token_without_signature(algorithm: &str, claims: &Value) -> String {
    format!("{}.", unsigned(&json!({ "alg": algorithm, "typ": "JWT" }), claims))
}

/// A token that is signed with a secret, which the attacker hopes the server mistakes for a key.
pub fn hs256_token(id: &str, secret: &[u8], claims: &Value) -> String {
    let message = unsigned(&json!({ "alg": "HS256", "kid": id }), claims);
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", encode(signature))
}

/// A key set.
pub fn key_set(keys: impl IntoIterator<Item = Value>) -> String {
    json!({ "keys": keys.into_iter().collect::<Value>() }).to_string()
}

/// Seconds since 1970, `offset` from now.
pub fn time(offset: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64 + offset
}

/// Claims that the server accepts, of the subject `ada`.
pub fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time(3600) })
}

/// Accepted claims, of which one is replaced; null removes it.
pub fn claims_but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value;
    }
    claims
}
