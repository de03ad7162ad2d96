//! A certificate authority, and files of its certificates.

use std::{
    fs,
    path::{Path, PathBuf},
};

use capstan::{client::ClientBuilder, server::TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both PEM.
pub struct Certified {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn certify(&self, names: Vec<SanType>) -> Certified {
        self.certify_as(None, names)
    }

    pub fn certify_as(&self, common_name: Option<&str>, names: Vec<SanType>) -> Certified {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A certificate for a server on the loopback.
    pub fn server(&self) -> Certified {
        self.certify(vec![SanType::IpAddress([127, 0, 0, 1].into())])
    }

    /// A certificate for a client with a SPIFFE id.
    pub fn spiffe(&self, id: &str) -> Certified {
        self.certify(vec![SanType::URI(id.try_into().unwrap())])
    }

    /// A certificate for a client with a DNS name.
    pub fn dns(&self, name: &str) -> Certified {
        self.certify(vec![SanType::DnsName(name.try_into().unwrap())])
    }
}

impl Certified {
    /// Makes a client present this certificate.
    pub fn present(&self, builder: ClientBuilder) -> ClientBuilder {
        builder.client_certificate(self.certificate.as_str(), self.key.as_str())
    }
}

/// Paths of a server's TLS files in `folder`.
pub fn files_in(folder: &Path) -> TlsFiles {
    let path = |name| -> PathBuf { folder.join(name) };
    TlsFiles {
        certificate: path("certificate.pem"),
        key: path("key.pem"),
        client_ca: Some(path("client_ca.pem")),
    }
}

/// Writes or replaces the certificate and the key.
pub fn write_server(files: &TlsFiles, server: &Certified) {
    fs::write(&files.certificate, &server.certificate).unwrap();
    fs::write(&files.key, &server.key).unwrap();
}

/// Writes or replaces the authority of clients.
pub fn write_client_ca(files: &TlsFiles, authority: &Authority) {
    fs::write(files.client_ca.as_ref().unwrap(), authority.pem()).unwrap();
}
