//! Files of text that people and other programs write: byte order marks, and PEM. Errors do not
//! quote the content.

#[cfg(any(feature = "client", feature = "server"))]
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject},
};

/// The content without the byte order mark of UTF-8, which some editors write.
pub fn without_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content)
}

/// The certificates of a PEM file, at least one.
///
/// Errors: what is wrong with the file.
#[cfg(any(feature = "client", feature = "server"))]
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates = CertificateDer::pem_slice_iter(without_bom(pem));
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(problem_of)?;
    if certificates.is_empty() { Err("has no certificate in PEM") } else { Ok(certificates) }
}

/// The private key of a PEM file.
///
/// Errors: what is wrong with the file.
#[cfg(any(feature = "client", feature = "server"))]
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    const MARK: &[u8] = b"ENCRYPTED";
    PrivateKeyDer::from_pem_slice(without_bom(pem)).map_err(|error| {
        let is_encrypted = pem.windows(MARK.len()).any(|window| window == MARK);
        match error {
            _ if is_encrypted => "is encrypted: decrypt it, with `openssl pkey` for example",
            PemError::NoItemsFound => "has no private key in PEM",
            error => problem_of(error),
        }
    })
}

#[cfg(any(feature = "client", feature = "server"))]
fn problem_of(_: PemError) -> &'static str {
    "is not valid PEM"
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn files_may_begin_with_a_byte_order_mark() {
        assert_eq!(without_bom(b"\xef\xbb\xbf\xef"), b"\xef");
        assert_eq!(without_bom(b"\xef\xbb"), b"\xef\xbb");
        let certified = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
        for mark in ["", "\u{feff}"] {
            assert_eq!(certificates(format!("{mark}{certificate}").as_bytes()).unwrap().len(), 1);
            private_key(format!("{mark}{key}").as_bytes()).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_its_content() {
        let begin = |label: &str| format!("-----BEGIN {label}-----\nc2VzYW1l\n");
        let whole = |label: &str| begin(label) + &format!("-----END {label}-----\n");
        let of_key = |text: &str| private_key(text.as_bytes()).unwrap_err();
        let of_certificate = |text: &str| certificates(text.as_bytes()).unwrap_err();
        assert!(of_key(&whole("ENCRYPTED PRIVATE KEY")).contains("encrypted"));
        let legacy = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n";
        let legacy = whole("RSA PRIVATE KEY").replace("c2VzYW1l", &format!("{legacy}c2VzYW1l"));
        assert!(of_key(&legacy).contains("encrypted"));
        assert_eq!(of_key(&whole("CERTIFICATE")), "has no private key in PEM");
        assert_eq!(of_key("sesame"), "has no private key in PEM");
        assert_eq!(of_certificate(""), "has no certificate in PEM");
        assert_eq!(of_certificate(&whole("PRIVATE KEY")), "has no certificate in PEM");
        assert_eq!(of_certificate(&begin("CERTIFICATE")), "is not valid PEM");
    }
}
