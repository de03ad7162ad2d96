//! What a client proves its identity with: a bearer token, a client certificate.

use bytes::Bytes;
use capstan_math::text::{self, without_bom};
use tonic::{
    codegen::http::{HeaderValue, Uri},
    transport::{Certificate, ClientTlsConfig, Identity},
};
use zeroize::Zeroizing;

use crate::error::{ClientError, Result};

/// The credentials of a client. Tokens and keys are wiped when they are dropped.
#[derive(Clone, Default)]
pub(crate) struct ClientCredentials {
    pub token: Option<Zeroizing<String>>,
    /// Whether the token may be sent over plain TCP to other hosts.
    pub allow_plaintext_token: bool,
    pub certificate: Option<ClientCertificate>,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone)]
pub(crate) struct ClientCertificate {
    pub chain_pem: Vec<u8>,
    pub key_pem: Zeroizing<Vec<u8>>,
}

impl ClientCertificate {
    /// Errors: `InvalidSetting` if a file has no certificate or no key, or the key is encrypted.
    pub fn identity(&self) -> Result<Identity> {
        text::certificates(&self.chain_pem)
            .map_err(|problem| ClientError::setting("client certificate", problem))?;
        text::private_key(&self.key_pem)
            .map_err(|problem| ClientError::setting("key of the client certificate", problem))?;
        Ok(Identity::from_pem(without_bom(&self.chain_pem), without_bom(&self.key_pem)))
    }
}

impl ClientCredentials {
    /// TLS with the client's certificate, if there is one. The server's certificate must be signed
    /// by the authority, or by one that the system trusts.
    ///
    /// Errors: `InvalidSetting` if the authority has no certificate; those of
    /// [`ClientCertificate::identity`].
    pub fn tls_config(
        &self,
        authority_pem: Option<&[u8]>,
        domain_name: Option<&str>,
    ) -> Result<ClientTlsConfig> {
        let mut tls = match authority_pem {
            Some(pem) => {
                text::certificates(pem)
                    .map_err(|problem| ClientError::setting("CA certificate", problem))?;
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(without_bom(pem)))
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(name) = domain_name {
            tls = tls.domain_name(name);
        }
        if let Some(certificate) = &self.certificate {
            tls = tls.identity(certificate.identity()?);
        }
        Ok(tls)
    }

    /// The header `authorization` of calls to `target`, in memory that is wiped when the last clone
    /// is dropped. It is marked as sensitive, so that HTTP/2 does not index it and logs hide it.
    ///
    /// Errors: `InvalidSetting` if the token has characters that no token has, or would be sent in
    /// plain text to another host.
    pub fn authorization(&self, target: &str) -> Result<Option<HeaderValue>> {
        let Some(token) = &self.token else { return Ok(None) };
        let refuse = |problem: &str| Err(ClientError::setting("token", problem));
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("must be visible ASCII characters without spaces");
        }
        if target.starts_with("http://") && !is_loopback(target) && !self.allow_plaintext_token {
            return refuse(
                "would be sent in plain text to another host: use https://, or set \
                 allow_plaintext_token if the network is trusted",
            );
        }
        let mut header = Zeroizing::new(Vec::with_capacity("Bearer ".len() + token.len()));
        header.extend_from_slice(b"Bearer ");
        header.extend_from_slice(token.as_bytes());
        let mut header = HeaderValue::from_maybe_shared(Bytes::from_owner(header))
            .map_err(|_| ClientError::setting("token", "cannot be sent in a header"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// Whether `target` names this host, without asking a name server.
fn is_loopback(target: &str) -> bool {
    let target = target.parse::<Uri>().unwrap_or_default();
    let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(token: &str, target: &str, allow_plaintext_token: bool) -> Result<HeaderValue> {
        let token = Some(Zeroizing::new(token.to_owned()));
        let credentials = ClientCredentials { token, allow_plaintext_token, certificate: None };
        let header = credentials.authorization(target);
        header.map(|header| header.expect("there is a token"))
    }

    #[test]
    fn tokens_are_not_sent_in_plain_text_to_other_hosts() {
        for target in [
            "http://127.0.0.1:1",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://localhost:1",
            "https://example.org",
            "unix:/run/capstan.sock",
        ] {
            assert_eq!(header("a", target, false).unwrap(), "Bearer a", "{target}");
        }
        for target in ["http://example.org", "http://10.0.0.1:1", "http://localhost.example.org"] {
            let refused = header("sesame", target, false).unwrap_err().to_string();
            assert!(refused.contains("plain text") && !refused.contains("sesame"), "{refused}");
            assert_eq!(header("a", target, true).unwrap(), "Bearer a", "{target}");
        }
    }

    #[test]
    fn headers_hide_the_token_and_refuse_other_characters() {
        let hidden = header("sesame", "https://example.org", false).unwrap();
        assert!(hidden.is_sensitive() && !format!("{hidden:?}").contains("sesame"));
        for token in ["", "a b", "a\n", "\u{e9}"] {
            let refused = header(token, "https://example.org", false);
            assert!(matches!(refused, Err(ClientError::InvalidSetting { .. })), "{token:?}");
        }
    }
}
