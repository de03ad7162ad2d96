//! Labels of bases, which people read in lists and logs.

use crate::error::{Error, FieldProblem, Result};

/// Maximum length of a label in bytes.
const LABEL_BYTES_MAX: u64 = 128;

/// Characters that show nothing, separate lines or change the direction of text: those that Unicode
/// lists as default-ignorable, and U+2028 and U+2029. Two labels must not look alike because of
/// them, and one must not disguise what follows it.
const INVISIBLE: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Errors: `Invalid` for a label that is too long or not printable.
pub(super) fn check(label: &str) -> Result<()> {
    if label.len() as u64 > LABEL_BYTES_MAX {
        return Err(Error::field("label", FieldProblem::TooLarge { max: LABEL_BYTES_MAX }));
    }
    let is_invisible =
        |c: char| INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c));
    if label.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err(Error::field("label", FieldProblem::BadEncoding));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_characters_that_nobody_sees() {
        for label in ["", "Ethereum KZG 2^12", "Größe ∀ 例 👍 e\u{301}"] {
            assert_eq!(check(label), Ok(()), "{label}");
        }
        for hidden in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}', '\u{7f}', '\t']
        {
            let bad = Error::field("label", FieldProblem::BadEncoding);
            assert_eq!(check(&format!("a{hidden}b")), Err(bad), "{hidden:?}");
        }
    }
}
