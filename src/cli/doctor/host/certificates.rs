//! How long the certificates of the TCP listener are valid.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime, pem::PemObject};
use webpki::{EndEntityCert, KeyUsage};

use crate::{
    cli::doctor::finding::DoctorFinding,
    server::{ServerSettings, TlsFiles},
};

const CHECK: &str = "certificates";
const DAY: Duration = Duration::from_secs(86_400);
/// Automatic renewal happens earlier, so a certificate that expires sooner is not renewed.
const REMAINING_MIN: Duration = Duration::from_secs(14 * 86_400);

pub fn check(settings: &ServerSettings) -> Vec<DoctorFinding> {
    let Some(TlsFiles { certificate, client_ca, .. }) = &settings.tls else { return Vec::new() };
    let files = [("tls_certificate", Some(certificate)), ("tls_client_ca", client_ca.as_ref())];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let check = |(setting, path): (_, Option<&PathBuf>)| Some(check_file(setting, path?, now));
    files.into_iter().filter_map(check).collect()
}

fn check_file(setting: &str, path: &Path, now: Duration) -> DoctorFinding {
    let about = format!("{setting} {}", path.display());
    let pem = match fs::read(path) {
        Ok(pem) => pem,
        Err(error) => {
            let fix = "correct the path, or run this as root";
            return DoctorFinding::warning(CHECK, format!("{about}: {error}"), fix);
        }
    };
    match first_expiry(&pem) {
        Some(expiry) => finding(&about, expiry, now),
        None => {
            let found = format!("{about} has no certificate");
            DoctorFinding::problem(CHECK, found, "use a file of certificates in PEM")
        }
    }
}

/// When the first of the certificates in a file expires, in Unix time.
fn first_expiry(pem: &[u8]) -> Option<Duration> {
    let certificates = CertificateDer::pem_slice_iter(pem).flatten();
    certificates.filter_map(|certificate| expiry(&certificate)).min()
}

/// The end of a certificate's validity, in Unix time; `None` if it cannot be parsed.
fn expiry(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let end_of_time = UnixTime::since_unix_epoch(Duration::MAX);
    // The validity is checked first, so the error has its end.
    let usage = KeyUsage::server_auth();
    match certificate.verify_for_usage(&[], &[], &[], end_of_time, usage, None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => {
            Some(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

fn finding(about: &str, expiry: Duration, now: Duration) -> DoctorFinding {
    let fix = "renew it: the daemon reads the new file by itself";
    let Some(remaining) = expiry.checked_sub(now) else {
        return DoctorFinding::problem(CHECK, format!("{about} has expired"), fix);
    };
    let found = format!("{about} expires in {} days", remaining.as_secs() / DAY.as_secs());
    if remaining < REMAINING_MIN {
        return DoctorFinding::warning(CHECK, found, fix);
    }
    DoctorFinding::ok(CHECK, found)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::cli::doctor::finding::Severity;

    /// 2031-02-03.
    const EXPIRY: Duration = Duration::from_secs(1_927_843_200);

    fn certificate(is_authority: bool) -> rcgen::Certificate {
        let mut params = CertificateParams::new(["x.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2031, 2, 3);
        if is_authority {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn the_end_of_validity_is_read() {
        for is_authority in [false, true] {
            assert_eq!(expiry(certificate(is_authority).der()), Some(EXPIRY), "{is_authority}");
        }
        assert_eq!(expiry(&CertificateDer::from(vec![0x30, 0x00])), None);
    }

    #[test]
    fn a_certificate_is_reported_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.pem");
        fs::write(&path, certificate(false).pem()).unwrap();
        let severity = |now| check_file("tls_certificate", &path, now).severity;
        assert_eq!(severity(EXPIRY - REMAINING_MIN), Severity::Ok);
        assert_eq!(severity(EXPIRY - REMAINING_MIN + DAY), Severity::Warning);
        assert_eq!(severity(EXPIRY + DAY), Severity::Problem);
    }

    #[test]
    fn a_file_without_a_readable_certificate_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let severity = |path: &Path| check_file("tls_client_ca", path, DAY).severity;
        assert_eq!(severity(&folder.path().join("none")), Severity::Warning);
        assert_eq!(severity(folder.path()), Severity::Warning);
        let path = folder.path().join("empty.pem");
        fs::write(&path, "").unwrap();
        assert_eq!(severity(&path), Severity::Problem);
    }
}
