//! The trace that a caller continues: W3C Trace Context.

use std::fmt;

/// A `traceparent`: version, trace id, parent id, flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub trace_id: TraceIdText,
    /// The caller's span.
    pub parent_id: u64,
    pub is_sampled: bool,
}

/// A trace id, which is shown as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceIdText(pub u128);

impl fmt::Display for TraceIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl TraceParent {
    /// Parses the header; `None` if it is malformed.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace_id) = (digits::<2>(parts.next()?)?, digits::<32>(parts.next()?)?);
        let (parent_id, flags) = (digits::<16>(parts.next()?)?, digits::<2>(parts.next()?)?);
        // Later versions may add parts.
        let is_known = version < 0xff && (version > 0 || parts.next().is_none());
        let is_valid = is_known && trace_id != 0 && parent_id != 0;
        is_valid.then_some(Self {
            trace_id: TraceIdText(trace_id),
            parent_id: parent_id as u64,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// A number of exactly `N` hexadecimal digits in lower case.
fn digits<const N: usize>(text: &str) -> Option<u128> {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = text.len() == N && text.bytes().all(is_digit);
    is_valid.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_headers_name_a_trace() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let valid = format!("00-{trace}-{parent}-01");
        let parsed = TraceParent::parse(&valid).unwrap();
        assert_eq!(parsed.trace_id.to_string(), trace);
        assert_eq!((parsed.parent_id, parsed.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        let unsampled = TraceParent::parse(&format!("00-{trace}-{parent}-02")).unwrap();
        assert!(!unsampled.is_sampled);
        assert!(TraceParent::parse(&format!("cc-{trace}-{parent}-01-later")).is_some());
        for invalid in [
            "",
            "00",
            "00-abc-1-01",
            &valid.to_uppercase(),
            &format!("00-{}-{parent}-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{trace}-{parent}"),
            &format!("00-{trace}-{parent}-1"),
            &format!("00-{trace}-{parent}-01-more"),
            &format!("ff-{trace}-{parent}-01"),
            &format!("00-{trace}-+0f067aa0ba902b7-01"),
        ] {
            assert_eq!(TraceParent::parse(invalid), None, "{invalid}");
        }
    }
}
