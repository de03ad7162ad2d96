//! Text for a terminal.

use std::borrow::Cow;

/// Replaces control characters apart from tabs and the ends of lines: a text may have parts that a
/// server chose, and they would command the terminal.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    let is_unsafe = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    if text.contains(is_unsafe) { text.replace(is_unsafe, "\u{fffd}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_does_not_command_the_terminal() {
        assert_eq!(without_controls("a\tb\n"), "a\tb\n");
        assert_eq!(
            without_controls("\u{1b}]0;x\u{7}\r\u{9b}2J"),
            "\u{fffd}]0;x\u{fffd}\u{fffd}\u{fffd}2J"
        );
    }
}
