//! A certificate in files, as the daemon reads it.

use std::{fs, time::Duration};

use capstan::server::TlsFiles;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
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
        Self::of(CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// A certificate for `localhost` that expires at a time after the Unix epoch.
    #[allow(dead_code)] // not every test crate needs it
    pub fn expiring(time: Duration) -> Self {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = params.not_before + time;
        Self::of(params)
    }

    fn of(params: CertificateParams) -> Self {
        let signing_key = KeyPair::generate().unwrap();
        let certificate_pem = params.self_signed(&signing_key).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&certificate, &certificate_pem).unwrap();
        fs::write(&key, signing_key.serialize_pem()).unwrap();
        let files = TlsFiles { certificate, key, client_ca: None };
        Self { certificate_pem, files, _folder: folder }
    }
}
