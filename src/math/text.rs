//! Text: the characters of names and labels, which people compare, and what files of text that
//! people and other programs write have in common: byte order marks, and PEM.

use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject},
};

/// Ranges of characters that a reader does not see, or that reorder the text around them: format
/// characters, fillers and variation selectors.
const INVISIBLE: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether `c` is a control character or cannot be seen. Text that people compare must not hold it.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// The content without the byte order mark of UTF-8, which some editors write.
pub fn without_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content)
}

/// The certificates of a PEM file, at least one.
///
/// Errors: what is wrong with the file, without its content.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates = CertificateDer::pem_slice_iter(without_bom(pem));
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(problem_of)?;
    if certificates.is_empty() { Err("has no certificate in PEM") } else { Ok(certificates) }
}

/// The private key of a PEM file.
///
/// Errors: what is wrong with the file, without its content.
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

fn problem_of(_: PemError) -> &'static str {
    "is not valid PEM"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(label: &str) -> String {
        format!("-----BEGIN {label}-----\nc2VzYW1l\n")
    }

    fn whole(label: &str) -> String {
        begin(label) + &format!("-----END {label}-----\n")
    }

    #[test]
    fn files_may_begin_with_a_byte_order_mark() {
        assert_eq!(without_bom(b"\xef\xbb\xbf\xef"), b"\xef");
        assert_eq!(without_bom(b"\xef\xbb"), b"\xef\xbb");
        let (certificate, key) = (whole("CERTIFICATE"), whole("PRIVATE KEY"));
        for mark in ["", "\u{feff}"] {
            assert_eq!(certificates(format!("{mark}{certificate}").as_bytes()).unwrap().len(), 1);
            private_key(format!("{mark}{key}").as_bytes()).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_its_content() {
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
