//! Reads the files that operators write: settings, tenants, bases to preload.

use serde::de::DeserializeOwned;

/// Errors quote at most this much of a line.
const QUOTED_CHARS_MAX: usize = 80;

/// Reads a value from TOML.
///
/// Errors: the first problem, and its line.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml_edit::de::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let number = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        let quoted: String = line.chars().take(QUOTED_CHARS_MAX).collect();
        format!("line {number} ({quoted}): {}", error.message().replace('\n', ", "))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_the_line_of_a_problem() {
        let read = from_toml::<BTreeMap<String, u32>>;
        assert_eq!(read("a = 1\nb = 2").unwrap().len(), 2);
        let wrong = read("a = 1\n b = -2").unwrap_err();
        assert!(wrong.starts_with("line 2 (b = -2): invalid value: integer `-2`"), "{wrong}");
        let unfinished = read("a = 1\n\nc = \n").unwrap_err();
        assert!(unfinished.starts_with("line 3 (c =): "), "{unfinished}");
        assert_eq!(unfinished.lines().count(), 1, "{unfinished}");
    }
}
