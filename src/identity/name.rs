//! Names of callers and tenants. They appear in logs and metrics, so their length and characters
//! are limited.

use capstan_math::text::is_hidden;

/// Maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Maximum length of a tenant's name, in bytes. It is part of a file name in the data directory.
const TENANT_NAME_BYTES_MAX: usize = 64;

/// Whether `name` may name a caller: 1 to `NAME_BYTES_MAX` (255) bytes of visible characters and
/// single spaces between them.
pub fn is_valid_name(name: &str) -> bool {
    let is_visible = |c: char| !is_hidden(c) && (c == ' ' || !c.is_whitespace());
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(is_visible)
        && name.trim() == name
        && !name.contains("  ")
}

/// Whether `name` may name a tenant: 1 to 64 of the characters a to z, 0 to 9, `-`, `_` and `.`, of
/// which the first is a letter or a digit.
pub fn is_valid_tenant_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=TENANT_NAME_BYTES_MAX).contains(&name.len())
        && is_plain(name.as_bytes()[0])
        && name.bytes().all(|byte| is_plain(byte) || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_visible() {
        for name in ["a", "ci", "spiffe://example.org/prover/1", "CN=Ada, O=Example", "Zoë", "証明"]
        {
            assert!(is_valid_name(name), "{name}");
        }
        assert!(is_valid_name(&"x".repeat(255)) && !is_valid_name(&"x".repeat(256)));
        for name in [
            "",
            " ",
            " a",
            "a ",
            "a  b",
            "a\n",
            "a\tb",
            "a\u{0}",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{a0}b",
            "ad\u{202e}nim",
            "a\u{200b}",
            "a\u{2066}b",
            "\u{feff}a",
            "a\u{2028}b",
            "a\u{e0041}",
            "a\u{ad}b",
            "a\u{3164}",
            "a\u{200f}",
        ] {
            assert!(!is_valid_name(name), "{name:?}");
        }
    }
}
