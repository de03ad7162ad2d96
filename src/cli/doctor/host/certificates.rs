//! How long the certificates of the TCP listener are valid.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    doctor::finding::DoctorFinding,
    identity::first_expiry,
    server::{CERTIFICATE_VALIDITY_MIN, ServerSettings, TlsFiles},
};

const CHECK: &str = "certificates";
const DAY: Duration = Duration::from_secs(86_400);

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

fn finding(about: &str, expiry: Duration, now: Duration) -> DoctorFinding {
    let fix = "renew it: the daemon reads the new file by itself";
    let Some(remaining) = expiry.checked_sub(now) else {
        return DoctorFinding::problem(CHECK, format!("{about} has expired"), fix);
    };
    let found = format!("{about} expires in {} days", remaining.as_secs() / DAY.as_secs());
    if remaining < CERTIFICATE_VALIDITY_MIN {
        return DoctorFinding::warning(CHECK, found, fix);
    }
    DoctorFinding::ok(CHECK, found)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::doctor::finding::Severity;

    /// 2031-02-03.
    const EXPIRY: Duration = Duration::from_secs(1_927_843_200);

    #[test]
    fn a_certificate_is_reported_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.pem");
        let mut params = CertificateParams::new(["x.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2031, 2, 3);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        fs::write(&path, certificate.pem()).unwrap();
        let severity = |now| check_file("tls_certificate", &path, now).severity;
        assert_eq!(severity(EXPIRY - CERTIFICATE_VALIDITY_MIN), Severity::Ok);
        assert_eq!(severity(EXPIRY - CERTIFICATE_VALIDITY_MIN + DAY), Severity::Warning);
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
