//! The name of a client certificate, and when certificates expire.

use std::time::Duration;

use capstan_math::text::without_bom;
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};
use webpki::{EndEntityCert, KeyUsage};

use super::name::is_valid_name;
use crate::credential_problem::CredentialProblem;

const SPIFFE: &str = "spiffe://";

/// The name in a certificate that was verified: its SPIFFE id, otherwise its first DNS name. The
/// common name is ignored.
///
/// Errors: `UnnamedCertificate` if it has neither, several SPIFFE ids, or if the name is too long
/// or has characters that are not visible.
pub fn certificate_name(certificate: &CertificateDer<'_>) -> Result<String, CredentialProblem> {
    let unnamed = CredentialProblem::UnnamedCertificate;
    let certificate = EndEntityCert::try_from(certificate).map_err(|_| unnamed)?;
    let mut ids = certificate.valid_uri_names().filter(|uri| uri.starts_with(SPIFFE));
    let name = match (ids.next(), ids.next()) {
        (Some(id), None) => id,
        // Nothing says which one the caller is.
        (Some(_), Some(_)) => return Err(unnamed),
        // A wildcard names no single caller.
        _ => certificate.valid_dns_names().find(|name| !name.contains('*')).ok_or(unnamed)?,
    };
    if is_valid_name(name) { Ok(name.to_owned()) } else { Err(unnamed) }
}

/// When the first of the certificates in a PEM file expires, in Unix time; `None` if there is none.
pub fn first_expiry(pem: &[u8]) -> Option<Duration> {
    let certificates = CertificateDer::pem_slice_iter(without_bom(pem)).flatten();
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

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType, date_time_ymd,
        string::Ia5String,
    };

    use super::*;

    fn name_of(sans: Vec<SanType>) -> Result<String, CredentialProblem> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "common");
        params.subject_alt_names = sans;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate_name(certificate.der())
    }

    fn ia5(text: &str) -> Ia5String {
        text.try_into().unwrap()
    }

    #[test]
    fn a_spiffe_id_comes_before_dns_names() {
        let dns = |name| SanType::DnsName(ia5(name));
        let uri = |name| SanType::URI(ia5(name));
        let spiffe = "spiffe://example.org/ns/a/sa/prover";
        let named = |sans| name_of(sans).unwrap();
        assert_eq!(named(vec![dns("a.example"), uri(spiffe)]), spiffe);
        assert_eq!(named(vec![uri("https://x.example"), dns("a.example")]), "a.example");
        assert_eq!(named(vec![dns("*.example"), dns("a.example"), dns("b.example")]), "a.example");
        for sans in [
            vec![],
            vec![uri("https://x.example")],
            vec![dns("*.example")],
            vec![uri(spiffe), uri("spiffe://example.org/other")],
            vec![SanType::Rfc822Name(ia5("a@example.org"))],
            vec![uri(&format!("spiffe://example.org/{}", "x".repeat(255)))],
        ] {
            assert_eq!(
                name_of(sans.clone()),
                Err(CredentialProblem::UnnamedCertificate),
                "{sans:?}"
            );
        }
    }

    #[test]
    fn the_end_of_validity_is_read() {
        let mut pem = String::new();
        for (is_authority, day) in [(false, 3), (true, 4)] {
            let mut params = CertificateParams::new(["x.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(2031, 2, day);
            if is_authority {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            pem = certificate.pem() + &pem;
            let first = Some(Duration::from_secs(1_927_843_200));
            assert_eq!(first_expiry(pem.as_bytes()), first, "{is_authority}");
        }
        assert_eq!(expiry(&CertificateDer::from(vec![0x30, 0x00])), None);
        assert_eq!(first_expiry(b""), None);
    }
}
