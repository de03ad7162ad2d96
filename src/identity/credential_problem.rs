//! Why a caller is not known.

use capstan_math::error::Reason;

/// What is wrong with the credentials of a call. Never contains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialProblem {
    /// The call has none.
    #[error("this server needs a token (authorization: Bearer TOKEN) or a client certificate")]
    Missing,
    /// The header `authorization` has another form, or there are several.
    #[error("the header authorization must be sent once, in the form Bearer TOKEN")]
    Malformed,
    /// The token is neither in the token file nor a JSON Web Token.
    #[error("the token is unknown or was revoked")]
    UnknownToken,
    /// The token was valid.
    #[error("the token has expired")]
    Expired,
    /// A JSON Web Token has an algorithm that is not allowed, for example HS256 or none.
    #[error("the token's algorithm is not allowed: sign it with an asymmetric key")]
    Algorithm,
    /// A JSON Web Token is not signed by a key of the key set.
    #[error("the token's signature is not valid for a key that this server knows")]
    Signature,
    /// A JSON Web Token is from another issuer.
    #[error("the token's issuer (iss) is not the one that this server expects")]
    Issuer,
    /// A JSON Web Token is for another service.
    #[error("the token's audience (aud) does not contain this server")]
    Audience,
    /// A JSON Web Token is not valid yet.
    #[error("the token is not valid yet (nbf)")]
    NotYetValid,
    /// A JSON Web Token lacks a claim, or a claim has the wrong type or characters.
    #[error("the token needs the claims exp, iss, aud and sub, and names of visible characters")]
    Claims,
    /// No authority of this server has signed the client certificate, or it is not valid now.
    #[error("the client certificate is not signed by a known authority, or is not valid now")]
    UntrustedCertificate,
    /// The client certificate is valid but has no name that can be used.
    #[error("the client certificate needs a SPIFFE URI, one only, or a DNS name")]
    UnnamedCertificate,
}

impl CredentialProblem {
    /// The reason of requests with this problem.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Missing => Reason::CredentialsMissing,
            Self::Expired => Reason::CredentialsExpired,
            _ => Reason::CredentialsInvalid,
        }
    }
}
