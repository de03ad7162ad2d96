//! Verifies the signatures of JSON Web Tokens by ring, which TLS uses, too. Nothing is signed here.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{self, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use this module, in the whole process.
pub fn install() {
    // Fails if it is installed already.
    let _again = PROVIDER.install_default();
}

/// What verifies signatures of one algorithm.
enum RingAlgorithm {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

struct RingVerifier {
    name: Algorithm,
    algorithm: RingAlgorithm,
    key: DecodingKey,
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(name: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let algorithm = algorithm(*name).ok_or(ErrorKind::UnsupportedAlgorithm)?;
    if key.family() != name.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { name: *name, algorithm, key: key.clone() }))
}

/// `None` for symmetric algorithms, whose keys could sign.
fn algorithm(name: Algorithm) -> Option<RingAlgorithm> {
    use RingAlgorithm::{Other, Rsa};
    Some(match name {
        Algorithm::RS256 => Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Other(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Other(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Other(&ED25519),
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let verified = match (&self.algorithm, self.key.kind()) {
            (RingAlgorithm::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (RingAlgorithm::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.name
    }
}
