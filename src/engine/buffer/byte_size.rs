//! Numbers of bytes, as people write them.

use std::{fmt, str::FromStr};

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes. It is shown in the largest unit that divides it, and read with or without a
/// unit: B, KiB, MiB, GiB or TiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// The text is not a number of bytes below 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of bytes, such as 1048576 or 1 MiB")]
pub struct NotByteSize;

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |bytes: u64| self.0 >= bytes && self.0.is_multiple_of(bytes);
        let (unit, bytes) = UNITS.iter().find(|(_, bytes)| divides(*bytes)).unwrap_or(&("B", 1));
        write!(f, "{} {unit}", self.0 / bytes)
    }
}

impl FromStr for ByteSize {
    type Err = NotByteSize;

    fn from_str(text: &str) -> Result<Self, NotByteSize> {
        let (digits, scale) = UNITS
            .iter()
            .find_map(|(unit, scale)| text.strip_suffix(unit).map(|rest| (rest.trim_end(), *scale)))
            .unwrap_or((text, 1));
        let digits = digits.replace('_', "");
        // `parse` would also accept a sign.
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<u64>().ok()).flatten();
        number.and_then(|number| number.checked_mul(scale)).map(Self).ok_or(NotByteSize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_sizes_parse_back() {
        for n in [0, 1, 1023, 1024, 1536, 1 << 20, (1 << 30) + 1, 5 << 40] {
            let shown = ByteSize(n).to_string();
            assert_eq!(shown.parse(), Ok(ByteSize(n)), "{shown}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_number_of_bytes() {
        for text in ["", "KiB", "1 MB", "-1", "+1", "1.5 GiB", "99999999999 TiB", "1 KiB KiB"] {
            assert_eq!(text.parse::<ByteSize>(), Err(NotByteSize), "{text}");
        }
    }
}
