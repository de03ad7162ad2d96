//! A certificate in files, as the daemon reads it.

use capstan::server::TlsFiles;
use std::fs;
use tempfile::TempDir;

/// A self-signed certificate, and files of it and its key.
pub struct CertifiedFiles {
    pub certificate_pem: String,
    pub files: TlsFiles,
    _folder: TempDir,
}

impl CertifiedFiles {
    /// A certificate for the host `name`.
    pub fn new(name: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let certificate_pem = certified.cert.pem();
        fs::write(&certificate, &certificate_pem).unwrap();
        fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        let files = TlsFiles { certificate, key, client_ca: None };
        Self { certificate_pem, files, _folder: folder }
    }
}
