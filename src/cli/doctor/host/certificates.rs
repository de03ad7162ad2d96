//! How long the certificates of the TCP listener are valid.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    cli::doctor::finding::DoctorFinding,
    identity::first_expiry,
    server::{CERTIFICATE_VALIDITY_MIN, ServerSettings, TlsFiles},
};

const CHECK: &str = "certificates";
const DAY: Duration = Duration::from_secs(86_400);

/// One file, and when the first of its certificates expires, in Unix time.
struct CertificateFacts {
    setting: &'static str,
    path: PathBuf,
    expiry: Duration,
}

pub fn check(settings: &ServerSettings) -> Vec<DoctorFinding> {
    let Some(TlsFiles { certificate, client_ca, .. }) = &settings.tls else { return Vec::new() };
    let files = [("tls_certificate", Some(certificate)), ("tls_client_ca", client_ca.as_ref())];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A file that cannot be read or parsed is a problem of the configuration.
    let read = |(setting, path): (_, Option<&PathBuf>)| facts(setting, path?);
    files.into_iter().filter_map(read).map(|facts| finding(&facts, now)).collect()
}

fn facts(setting: &'static str, path: &Path) -> Option<CertificateFacts> {
    let expiry = first_expiry(&fs::read(path).ok()?)?;
    Some(CertificateFacts { setting, path: path.to_owned(), expiry })
}

fn finding(facts: &CertificateFacts, now: Duration) -> DoctorFinding {
    let CertificateFacts { setting, path, expiry } = facts;
    let about = format!("{setting} {}", path.display());
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
    use crate::cli::doctor::finding::Severity;

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
        let facts = facts("tls_certificate", &path).unwrap();
        let severity = |now| finding(&facts, now).severity;
        assert_eq!(severity(EXPIRY - CERTIFICATE_VALIDITY_MIN), Severity::Ok);
        assert_eq!(severity(EXPIRY - CERTIFICATE_VALIDITY_MIN + DAY), Severity::Warning);
        assert_eq!(severity(EXPIRY + DAY), Severity::Problem);
    }
}
