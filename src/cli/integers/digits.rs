//! Files of digits: decimal ones, or hexadecimal ones after 0x.

use std::{fmt, str};

use capstan_math::text::without_bom;
use dashu_int::UBig;
use zeroize::Zeroizing;

/// For the help of commands.
pub const FORMATS: &str = "\
A file holds one integer, 0 or above: decimal digits, or 0x and hexadecimal digits of either case.
Whitespace may follow. Nothing else is allowed: no sign, no separators, no second integer.
The product is written in hexadecimal if both factors are, or with --hex, and in decimal otherwise.
Converting 10 million decimal digits takes several seconds, and time grows faster than their number;
hexadecimal digits take almost none.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigitRadix {
    Decimal,
    Hexadecimal,
}

/// An integer of a file, wiped when dropped.
pub struct FileInteger {
    pub value: Zeroizing<UBig>,
    pub radix: DigitRadix,
}

/// Why a file is not an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigitsError {
    /// No digit, or only 0x.
    Empty,
    /// A byte that is not a digit, by its line and column, counted in bytes from 1.
    BadByte { line: usize, column: usize, byte: u8, radix: DigitRadix },
    /// Whitespace before the last digit.
    Whitespace { line: usize, column: usize },
}

impl DigitsError {
    /// The error of a line that was read alone.
    pub fn in_line(self, line: usize) -> Self {
        match self {
            Self::Empty => self,
            Self::BadByte { column, byte, radix, .. } => {
                Self::BadByte { line, column, byte, radix }
            }
            Self::Whitespace { column, .. } => Self::Whitespace { line, column },
        }
    }
}

impl fmt::Display for DigitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column, byte, radix) = match *self {
            Self::Empty => return f.write_str("no digits: expected an integer"),
            Self::Whitespace { line, column } => {
                let allowed = "whitespace is allowed at the end only";
                return write!(f, "line {line}, column {column}: {allowed}");
            }
            Self::BadByte { line, column, byte, radix } => (line, column, byte, radix),
        };
        write!(f, "line {line}, column {column}: ")?;
        match byte {
            b'-' => f.write_str("negative integers are not supported"),
            b' '..=b'~' => write!(f, "'{}' is not a {radix} digit", char::from(byte)),
            _ => write!(f, "byte 0x{byte:02x} is not a {radix} digit"),
        }
    }
}

impl fmt::Display for DigitRadix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decimal => "decimal",
            Self::Hexadecimal => "hexadecimal",
        })
    }
}

/// Reads the integer of a file.
pub fn parse(bytes: &[u8]) -> Result<FileInteger, DigitsError> {
    let content = without_bom(bytes).trim_ascii_end();
    let (radix, prefix) = match content {
        [b'0', b'x' | b'X', ..] => (DigitRadix::Hexadecimal, 2),
        _ => (DigitRadix::Decimal, 0),
    };
    let digits = &content[prefix..];
    let is_digit = |byte: &u8| match radix {
        DigitRadix::Decimal => byte.is_ascii_digit(),
        DigitRadix::Hexadecimal => byte.is_ascii_hexdigit(),
    };
    if let Some(at) = digits.iter().position(|byte| !is_digit(byte)) {
        return Err(bad_byte(content, prefix + at, radix));
    }
    let number = if radix == DigitRadix::Decimal { 10 } else { 16 };
    let text = str::from_utf8(digits).map_err(|_| DigitsError::Empty)?;
    let value = UBig::from_str_radix(text, number).map_err(|_| DigitsError::Empty)?;
    Ok(FileInteger { value: Zeroizing::new(value), radix })
}

/// The problem of the byte at an index of the file.
fn bad_byte(content: &[u8], at: usize, radix: DigitRadix) -> DigitsError {
    let byte = content[at];
    let before = &content[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = at - start + 1;
    match byte.is_ascii_whitespace() {
        true => DigitsError::Whitespace { line, column },
        false => DigitsError::BadByte { line, column, byte, radix },
    }
}

/// The digits of an integer, with 0x if they are hexadecimal.
pub fn write(value: &UBig, radix: DigitRadix) -> Zeroizing<String> {
    Zeroizing::new(match radix {
        DigitRadix::Decimal => value.to_string(),
        DigitRadix::Hexadecimal => format!("{value:#x}"),
    })
}

/// The limbs of an integer, at least one.
pub fn limbs(value: &UBig) -> Zeroizing<Vec<u32>> {
    let words = value.as_words();
    let mut limbs = Zeroizing::new(Vec::with_capacity(2 * words.len() + 1));
    limbs.extend(words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]));
    while limbs.len() > 1 && limbs.last() == Some(&0) {
        limbs.pop();
    }
    if limbs.is_empty() {
        limbs.push(0);
    }
    limbs
}

/// The integer of these limbs.
pub fn integer(limbs: &[u32]) -> Zeroizing<UBig> {
    let word =
        |pair: &[u32]| u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32;
    let words = Zeroizing::new(limbs.chunks(2).map(word).collect::<Vec<_>>());
    Zeroizing::new(UBig::from_words(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> (String, DigitRadix) {
        let FileInteger { value, radix } = parse(text.as_bytes()).unwrap();
        assert_eq!(*integer(&limbs(&value)), *value);
        (write(&value, radix).to_string(), radix)
    }

    #[test]
    fn digits_of_either_radix_are_read_and_written() {
        assert_eq!(value("0"), ("0".into(), DigitRadix::Decimal));
        assert_eq!(value("007\n"), ("7".into(), DigitRadix::Decimal));
        assert_eq!(value("0x0"), ("0x0".into(), DigitRadix::Hexadecimal));
        assert_eq!(value("0Xffff0000A \r\n\n"), ("0xffff0000a".into(), DigitRadix::Hexadecimal));
        let long = "9".repeat(1000);
        assert_eq!(value(&long), (long, DigitRadix::Decimal));
    }

    #[test]
    fn bad_digits_are_refused_with_line_and_column() {
        let refused = |text: &[u8]| parse(text).err().expect("refused").to_string();
        for empty in ["", " \n", "0x", "0x \n"] {
            assert_eq!(refused(empty.as_bytes()), "no digits: expected an integer", "{empty:?}");
        }
        assert_eq!(refused(b"12a4"), "line 1, column 3: 'a' is not a decimal digit");
        assert_eq!(refused(b"0x12g4"), "line 1, column 5: 'g' is not a hexadecimal digit");
        assert_eq!(refused(b"-5"), "line 1, column 1: negative integers are not supported");
        assert_eq!(refused(b"+5"), "line 1, column 1: '+' is not a decimal digit");
        assert_eq!(refused(b"1_000"), "line 1, column 2: '_' is not a decimal digit");
        assert_eq!(refused(b"0x_1"), "line 1, column 3: '_' is not a hexadecimal digit");
        let whitespace = "whitespace is allowed at the end only";
        assert_eq!(refused(b"12\n34\n"), format!("line 1, column 3: {whitespace}"));
        assert_eq!(refused(b"\n7"), format!("line 1, column 1: {whitespace}"));
        assert_eq!(refused(b"0x7 \xff"), format!("line 1, column 4: {whitespace}"));
        assert_eq!(refused(b"1\xff"), "line 1, column 2: byte 0xff is not a decimal digit");
    }
}
