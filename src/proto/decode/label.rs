//! Labels of objects, which people read in lists and logs.

use capstan_math::{
    error::{FieldProblem, InputError, Result},
    text::is_hidden,
};

/// Maximum length of a label in bytes.
const LABEL_BYTES_MAX: u64 = 128;

/// Checks a label.
///
/// Errors: `Invalid` for a label that is too long or not printable.
pub fn label(label: &str) -> Result<()> {
    if label.len() as u64 > LABEL_BYTES_MAX {
        return Err(InputError::field("label", FieldProblem::TooLarge { max: LABEL_BYTES_MAX }));
    }
    // Two labels must not look alike, and one must not disguise what follows it.
    if label.chars().any(is_hidden) {
        return Err(InputError::field("label", FieldProblem::BadEncoding));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_characters_that_nobody_sees() {
        for text in ["", "Ethereum KZG 2^12", "Größe ∀ 例 👍 e\u{301}"] {
            assert_eq!(label(text), Ok(()), "{text}");
        }
        for hidden in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}', '\u{7f}', '\t']
        {
            let bad = InputError::field("label", FieldProblem::BadEncoding);
            assert_eq!(label(&format!("a{hidden}b")), Err(bad), "{hidden:?}");
        }
    }
}
