//! Bearer tokens: 256 random bits behind a prefix that scanners for leaked secrets can recognise.

use std::fmt;

use ring::digest;
use zeroize::Zeroizing;

const PREFIX: &str = "capstan_";
const SECRET_BYTES: usize = 32;

/// A token that a client sends. Wiped when it is dropped.
pub struct BearerToken(Zeroizing<String>);

/// The SHA-256 of a token. One pass is enough: a token has 256 random bits, so nobody finds it by
/// trying, as they could with a password.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl BearerToken {
    /// Draws a token.
    ///
    /// Errors: the system has no randomness.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(secret.as_mut())?;
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * SECRET_BYTES));
        text.push_str(PREFIX);
        let mut digits = Zeroizing::new([0; 2 * SECRET_BYTES]);
        hex::encode_to_slice(*secret, digits.as_mut()).expect("two digits for each byte");
        text.push_str(std::str::from_utf8(digits.as_ref()).expect("digits are ASCII"));
        Ok(Self(text))
    }

    /// The token's text, which is secret.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The hash that the token file holds.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(<redacted>)")
    }
}

impl TokenHash {
    /// The hash of a token's text.
    pub fn of(token: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, token);
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash).ok().map(|()| Self(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_not_printed() {
        let (one, two) = (BearerToken::generate().unwrap(), BearerToken::generate().unwrap());
        assert_ne!(one.hash(), two.hash());
        assert!(one.text().starts_with("capstan_") && one.text().len() == 72, "{}", one.text());
        assert!(!format!("{one:?}").contains(&one.text()[8..]));
    }

    /// The vector of FIPS 180-2, which `printf abc | sha256sum` prints, too.
    #[test]
    fn hashes_are_sha_256_in_hexadecimal() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::of(b"abc");
        assert_eq!(hash.to_string(), text);
        assert_eq!(TokenHash::parse(&text.to_uppercase()), Some(hash));
        for text in ["", "ba78", &text[1..], &text.replace('b', "g")] {
            assert_eq!(TokenHash::parse(text), None, "{text}");
        }
    }
}
