//! TLS of the TCP listeners: the certificate, its key, and the authority of client certificates.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use capstan_math::text;
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use zeroize::Zeroizing;

use crate::{
    grpc::callers::reload::{CredentialFileError, entry_errors, warn_of_left_out},
    identity::first_expiry,
    settings::TlsFiles,
};

/// Certificates that are renewed automatically are valid for longer, so one that expires sooner is
/// not renewed.
pub const CERTIFICATE_VALIDITY_MIN: Duration = Duration::from_secs(14 * 86_400);

const CERTIFICATE: &str = "tls_certificate";
const KEY: &str = "tls_key";
const CLIENT_CA: &str = "tls_client_ca";
/// The protocol of gRPC.
const HTTP_2: &[u8] = b"h2";
/// The protocol of the listener for metrics.
const HTTP_1: &[u8] = b"http/1.1";

/// What the files of TLS hold.
pub(in crate::grpc) struct LoadedTls {
    pub config: Arc<ServerConfig>,
    pub expiries: Vec<FileExpiry>,
}

/// When the first certificate of a file expires.
#[derive(Debug, Clone)]
pub(in crate::grpc) struct FileExpiry {
    pub setting: &'static str,
    path: PathBuf,
    /// In Unix time.
    pub expiry: Duration,
}

impl FileExpiry {
    /// Logs it if the certificate has expired or soon will.
    pub fn warn(&self) {
        let Self { setting, path, expiry } = self;
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        match expiry.checked_sub(now) {
            None => tracing::error!(setting, ?path, "a certificate has expired: renew it"),
            Some(left) if left < CERTIFICATE_VALIDITY_MIN => {
                let days = left.as_secs() / 86_400;
                tracing::warn!(setting, ?path, days, "a certificate expires soon: renew it");
            }
            Some(_) => {}
        }
    }
}

impl TlsFiles {
    pub(in crate::grpc) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.certificate.clone(), self.key.clone()];
        paths.extend(self.client_ca.clone());
        paths
    }

    /// What is wrong with the file of the certificate and with that of its key, each by itself.
    pub(in crate::grpc) fn unreadable(&self) -> Vec<CredentialFileError> {
        let chain = read(CERTIFICATE, &self.certificate).and_then(|pem| parse_chain(&pem));
        chain.err().into_iter().chain(read_key(&self.key).err()).collect()
    }

    /// The authorities of client certificates that cannot be used.
    ///
    /// Errors: the file cannot be read or parsed, or none of them can be used.
    pub(in crate::grpc) fn check_client_ca(
        &self,
    ) -> Result<Vec<CredentialFileError>, CredentialFileError> {
        let Some(path) = &self.client_ca else { return Ok(Vec::new()) };
        let authorities = ClientAuthorities::parse(&read(CLIENT_CA, path)?)?;
        Ok(entry_errors(CLIENT_CA, &authorities.left_out))
    }

    /// Reads the files for gRPC. `is_optional`: whether clients may connect without a certificate.
    ///
    /// Errors: a file cannot be read or parsed, or the key is not the certificate's.
    pub(in crate::grpc) fn read(
        &self,
        is_optional: bool,
    ) -> Result<LoadedTls, CredentialFileError> {
        self.read_for(HTTP_2, is_optional)
    }

    /// Reads the files for HTTP/1.1.
    ///
    /// Errors: those of [`Self::read`].
    pub(in crate::grpc) fn read_http(&self) -> Result<LoadedTls, CredentialFileError> {
        self.read_for(HTTP_1, true)
    }

    fn read_for(
        &self,
        protocol: &[u8],
        is_optional: bool,
    ) -> Result<LoadedTls, CredentialFileError> {
        let mut expiries = Vec::new();
        let mut add_expiry = |setting, path: &PathBuf, pem: &[u8]| {
            let expiry = first_expiry(pem);
            expiries.extend(expiry.map(|expiry| FileExpiry {
                setting,
                path: path.clone(),
                expiry,
            }));
        };
        let certificates = read(CERTIFICATE, &self.certificate)?;
        add_expiry(CERTIFICATE, &self.certificate, &certificates);
        let key = read_key(&self.key)?;
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for the default versions");
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let authorities = read(CLIENT_CA, path)?;
                add_expiry(CLIENT_CA, path, &authorities);
                let authorities = ClientAuthorities::parse(&authorities)?;
                warn_of_left_out(CLIENT_CA, &authorities.left_out);
                builder.with_client_cert_verifier(authorities.verifier(is_optional)?)
            }
        };
        let chain = parse_chain(&certificates)?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let problem = format!("cannot be used with tls_key: {error}");
            CredentialFileError::new(CERTIFICATE, problem)
        })?;
        config.alpn_protocols.push(protocol.to_vec());
        if self.client_ca.is_some() {
            // A resumed session would keep an identity without checking the certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(LoadedTls { config: config.into(), expiries })
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, CredentialFileError> {
    fs::read(path).map_err(|error| CredentialFileError::new(setting, error))
}

fn parse_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialFileError> {
    let refused = |problem| CredentialFileError::new(CERTIFICATE, problem);
    text::certificates(pem).map_err(refused)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CredentialFileError> {
    let pem = Zeroizing::new(read(KEY, path)?);
    text::private_key(&pem).map_err(|problem| CredentialFileError::new(KEY, problem))
}

/// The authorities of client certificates.
struct ClientAuthorities {
    roots: RootCertStore,
    /// What is wrong with those that cannot be used.
    left_out: Vec<String>,
}

impl ClientAuthorities {
    /// Errors: the file cannot be parsed, or no certificate of it can be used.
    fn parse(pem: &[u8]) -> Result<Self, CredentialFileError> {
        let mut roots = RootCertStore::empty();
        let mut left_out = Vec::new();
        let certificates = text::certificates(pem)
            .map_err(|problem| CredentialFileError::new(CLIENT_CA, problem))?;
        for (index, certificate) in certificates.into_iter().enumerate() {
            // One bad certificate does not disable the rest of the bundle.
            if let Err(error) = roots.add(certificate) {
                left_out.push(format!("certificate {} cannot be used: {error}", index + 1));
            }
        }
        match roots.is_empty() {
            true => Err(CredentialFileError::new(CLIENT_CA, left_out.join("; "))),
            false => Ok(Self { roots, left_out }),
        }
    }

    fn verifier(
        self,
        is_optional: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, CredentialFileError> {
        let provider = Arc::new(default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(self.roots.into(), provider);
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error| CredentialFileError::new(CLIENT_CA, error))
    }
}
