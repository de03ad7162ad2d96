//! JSON Web Tokens (RFC 7519), verified by keys of a local set.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, errors::ErrorKind};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{
    caller::Caller,
    key_set::{self, KeySet, KeySetProblem, VerifyingKey},
    name::is_valid_name,
    signatures,
    token::TokenHash,
};
use crate::credential_problem::CredentialProblem;

/// Difference between clocks that is forgiven.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Verified tokens to remember: a client sends the same one with every call, and verifying an
/// elliptic-curve signature takes longer than a small NTT.
const VERIFIED_MAX: usize = 4096;

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtPolicy {
    /// The claim `iss`.
    pub issuer: String,
    /// A member of the claim `aud`.
    pub audience: String,
    /// Name of the claim that names the tenant. Tokens without it are of the default tenant.
    pub tenant_claim: String,
}

/// Verifies tokens.
pub struct JwtVerifier {
    policy: JwtPolicy,
    keys: Vec<VerifyingKey>,
    left_out: Vec<KeySetProblem>,
    verified: Mutex<HashMap<TokenHash, VerifiedJwt>>,
}

#[derive(Clone)]
struct VerifiedJwt {
    caller: Caller,
    begins: SystemTime,
    expires: SystemTime,
}

/// Whether a bearer token has the form of a JSON Web Token: three parts.
pub fn is_jwt(token: &[u8]) -> bool {
    token.iter().filter(|byte| **byte == b'.').count() == 2
}

impl JwtVerifier {
    /// Reads the key set.
    ///
    /// Errors: the text is not a key set, or no key of it can be used.
    pub fn new(policy: JwtPolicy, key_set: &str) -> Result<Self, KeySetProblem> {
        signatures::install();
        let KeySet { keys, left_out } = key_set::parse(key_set)?;
        Ok(Self { policy, keys, left_out, verified: Mutex::default() })
    }

    /// The keys of the set that cannot be used.
    pub fn left_out(&self) -> &[KeySetProblem] {
        &self.left_out
    }

    /// The caller that a token names.
    ///
    /// Errors: `UnknownToken` if it is no JSON Web Token; what is wrong with it.
    pub fn verify(&self, token: &[u8], now: SystemTime) -> Result<Caller, CredentialProblem> {
        if !is_jwt(token) {
            return Err(CredentialProblem::UnknownToken);
        }
        let hash = TokenHash::of(token);
        let known = self.verified.lock().get(&hash).cloned();
        let VerifiedJwt { caller, begins, expires } = match known {
            Some(known) => known,
            None => {
                let verified = self.verify_signature(token)?;
                let mut all = self.verified.lock();
                if all.len() >= VERIFIED_MAX {
                    all.clear();
                }
                all.insert(hash, verified.clone());
                verified
            }
        };
        // Again, because the clock may have been set back since.
        match now {
            _ if now < begins => Err(CredentialProblem::NotYetValid),
            _ if expires <= now => Err(CredentialProblem::Expired),
            _ => Ok(caller),
        }
    }

    fn verify_signature(&self, token: &[u8]) -> Result<VerifiedJwt, CredentialProblem> {
        // `none` and unknown algorithms do not parse.
        let header = decode_header(token).map_err(|_| CredentialProblem::Algorithm)?;
        if header.alg.family() == jsonwebtoken::AlgorithmFamily::Hmac {
            return Err(CredentialProblem::Algorithm);
        }
        // Extensions that the issuer declares critical are not implemented.
        if header.crit.is_some() {
            return Err(CredentialProblem::Claims);
        }
        let key = self.key_for(&header).ok_or(CredentialProblem::Signature)?;
        match decode::<Map<String, Value>>(token, &key.key, &self.validation(header.alg)) {
            Ok(decoded) => self.named(&decoded.claims),
            Err(error) => Err(problem_of(error.kind())),
        }
    }

    /// The key that has signed a token. A token without a key id needs a set with one key for its
    /// algorithm: a stranger must not make the server check a signature with every key.
    fn key_for(&self, header: &Header) -> Option<&VerifyingKey> {
        let mut keys = self.keys.iter().filter(|key| {
            key.algorithms.contains(&header.alg) && (header.kid.is_none() || header.kid == key.id)
        });
        let key = keys.next()?;
        (header.kid.is_some() || keys.next().is_none()).then_some(key)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.policy.issuer]);
        validation.set_audience(&[&self.policy.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = CLOCK_SKEW.as_secs();
        validation
    }

    fn named(&self, claims: &Map<String, Value>) -> Result<VerifiedJwt, CredentialProblem> {
        let wrong = CredentialProblem::Claims;
        let name = |value: &Value| {
            let name = value.as_str().filter(|name| is_valid_name(name));
            name.map(str::to_owned).ok_or(wrong)
        };
        let subject = name(claims.get("sub").ok_or(wrong)?)?;
        let tenant = claims.get(&self.policy.tenant_claim).map(name).transpose()?;
        let time = |seconds: f64| {
            let since = Duration::try_from_secs_f64(seconds).ok()?;
            UNIX_EPOCH.checked_add(since)
        };
        let seconds = |claim| claims.get(claim).and_then(Value::as_f64);
        let expires = seconds("exp").and_then(time).and_then(|time| time.checked_add(CLOCK_SKEW));
        let begins = seconds("nbf").and_then(time).and_then(|time| time.checked_sub(CLOCK_SKEW));
        let begins = begins.unwrap_or(UNIX_EPOCH);
        let expires = expires.ok_or(wrong)?;
        let caller = Caller::jwt(&subject, tenant.as_deref());
        Ok(VerifiedJwt { caller, begins, expires })
    }
}

fn problem_of(error: &ErrorKind) -> CredentialProblem {
    match error {
        ErrorKind::ExpiredSignature => CredentialProblem::Expired,
        ErrorKind::ImmatureSignature => CredentialProblem::NotYetValid,
        ErrorKind::InvalidIssuer => CredentialProblem::Issuer,
        ErrorKind::InvalidAudience => CredentialProblem::Audience,
        ErrorKind::MissingRequiredClaim(_)
        | ErrorKind::InvalidClaimFormat(_)
        | ErrorKind::InvalidSubject
        | ErrorKind::Json(_)
        | ErrorKind::Utf8(_) => CredentialProblem::Claims,
        _ => CredentialProblem::Signature,
    }
}
