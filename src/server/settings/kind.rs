//! Types of settings: parse text, describe what is valid, and fill fields.

use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use crate::buffer::ByteSize;

/// The type and range of a setting.
#[derive(Debug, Clone, Copy)]
pub enum SettingKind {
    /// An integer from `min` to `max`, inclusive, which counts `unit`.
    Integer { unit: &'static str, min: u64, max: u64 },
    /// Bytes from `min` to `max`, inclusive: a number, optionally with B, KiB, MiB, GiB or TiB.
    /// `auto` says what that word means, if it is allowed.
    Bytes { min: u64, max: u64, auto: Option<AutoBytes> },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An IP address or the name of a host, and a port, or `none`.
    Address,
    /// A path, or `none`.
    Path,
    /// Text without line breaks, or `none`.
    Text,
    /// Device numbers, such as `0,2`, or `all`.
    Devices,
    /// Permission bits in octal.
    Mode,
    /// A log filter: a level, or directives such as `warn,capstan=debug`.
    Filter,
}

/// What the word `auto` means.
#[derive(Debug, Clone, Copy)]
pub struct AutoBytes {
    pub meaning: &'static str,
    pub bytes: fn(AutoBasis) -> u64,
    /// The number of a server in another program.
    pub embedded: u64,
}

/// What `auto` depends on.
#[derive(Debug, Clone, Copy)]
pub struct AutoBasis {
    /// Bytes of memory available to the daemon.
    pub memory: u64,
    pub bytes_in_flight: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedValue {
    /// An `Integer`, `Bytes` or `Mode`.
    Number(u64),
    Flag(bool),
    /// A `Choice`, `Filter` or `Text`.
    Text(String),
    Address(SocketAddr),
    /// The name of a host, and a port: see [`resolve`].
    Host(String),
    Path(PathBuf),
    /// Ascending numbers; empty for all devices.
    Devices(Vec<u32>),
    Auto,
    /// The word `none`.
    Disabled,
}

impl SettingKind {
    /// Parses `text`; `None` if it is not of this kind or out of range.
    pub fn parse(self, text: &str) -> Option<ParsedValue> {
        let text = text.trim();
        match self {
            Self::Integer { min, max, .. } => number(text, 10).and_then(|n| within(n, min, max)),
            Self::Bytes { auto: Some(_), .. } if text == "auto" => Some(ParsedValue::Auto),
            Self::Bytes { min, max, .. } => {
                text.parse().ok().and_then(|ByteSize(n)| within(n, min, max))
            }
            Self::Mode => number(text, 8).and_then(|n| within(n, 0, 0o777)),
            Self::Flag => text.parse().ok().map(ParsedValue::Flag),
            Self::Choice(words) => {
                words.contains(&text).then(|| ParsedValue::Text(text.to_owned()))
            }
            Self::Address | Self::Path | Self::Text if text == "none" => {
                Some(ParsedValue::Disabled)
            }
            Self::Address => match text.parse() {
                Ok(address) => Some(ParsedValue::Address(address)),
                Err(_) => is_host_and_port(text).then(|| ParsedValue::Host(text.to_owned())),
            },
            Self::Path => (!text.is_empty()).then(|| ParsedValue::Path(PathBuf::from(text))),
            Self::Text => (!text.is_empty() && !text.contains(char::is_control))
                .then(|| ParsedValue::Text(text.to_owned())),
            Self::Devices => devices(text).map(ParsedValue::Devices),
            Self::Filter => tracing_subscriber::EnvFilter::builder()
                .parse(text)
                .is_ok_and(|_| !text.is_empty())
                .then(|| ParsedValue::Text(text.to_owned())),
        }
    }

    /// Whether TOML writes the value without quotes. `text` must have been parsed.
    pub fn is_bare(self, text: &str) -> bool {
        match self {
            Self::Integer { .. } | Self::Flag => true,
            Self::Bytes { .. } => text.bytes().all(|b| b.is_ascii_digit()),
            _ => false,
        }
    }

    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Integer { .. } => "N",
            Self::Bytes { .. } => "BYTES",
            Self::Flag => "BOOL",
            Self::Choice(_) => "WORD",
            Self::Address => "ADDRESS",
            Self::Path => "PATH",
            Self::Text => "TEXT",
            Self::Devices => "NUMBERS",
            Self::Mode => "OCTAL",
            Self::Filter => "FILTER",
        }
    }
}

/// Whether the text is the name of a host (RFC 1123, but containers' names have underscores, too),
/// a colon and a port. A name of digits and dots is a wrong IPv4 address.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-')
    };
    let has_letter = host.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_port = port.parse::<u16>().is_ok() && !port.starts_with('+');
    has_letter && host.split('.').all(is_label) && is_port
}

/// An address of a host, given as its name and a port: the first IPv4 address, else the first.
///
/// Errors: those of the system's resolver.
pub fn resolve(host_and_port: &str) -> io::Result<SocketAddr> {
    let mut addresses: Vec<_> = host_and_port.to_socket_addrs()?.collect();
    // Stable, so that the order of the resolver decides within a family.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| io::Error::other("the host has no address"))
}

/// The unit and the allowed range.
impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { unit, min, max } => write!(f, "{min} to {max} {unit}"),
            Self::Bytes { min, max, auto } => {
                write!(f, "{} to {}", ByteSize(*min), ByteSize(*max))?;
                auto.map_or(Ok(()), |auto| write!(f, ", or auto: {}", auto.meaning))
            }
            Self::Flag => f.write_str("true or false"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Address => f.write_str("IP:PORT, [IPv6]:PORT or HOST:PORT, or none"),
            Self::Path => f.write_str("a path, or none"),
            Self::Text => f.write_str("text in one line, or none"),
            Self::Devices => f.write_str("numbers such as 0 or 0,2, or all"),
            Self::Mode => f.write_str("octal permission bits, 0000 to 0777"),
            Self::Filter => f.write_str(
                "error, warn, info, debug, trace, or directives such as warn,capstan=debug",
            ),
        }
    }
}

/// The type of a setting's field.
pub trait SettingType: Sized {
    /// The value of the setting `name`; `None` if it does not fit this type.
    fn from_parsed(value: &ParsedValue, name: &str) -> Option<Self>;
}

/// Implements [`SettingType`] for types of values.
macro_rules! setting_types {
    ($($type:ty: $($value:pat => $field:expr),+;)+) => {
        $(impl SettingType for $type {
            fn from_parsed(value: &ParsedValue, _name: &str) -> Option<Self> {
                match value {
                    $($value => $field,)+
                    _ => None,
                }
            }
        })+
    };
}

setting_types! {
    u32: ParsedValue::Number(number) => (*number).try_into().ok();
    u64: ParsedValue::Number(number) => Some(*number);
    usize: ParsedValue::Number(number) => (*number).try_into().ok();
    bool: ParsedValue::Flag(flag) => Some(*flag);
    SocketAddr: ParsedValue::Address(address) => Some(*address);
    PathBuf: ParsedValue::Path(path) => Some(path.clone());
    Vec<u32>: ParsedValue::Devices(devices) => Some(devices.clone());
    String:
        ParsedValue::Text(text) => Some(text.clone()),
        ParsedValue::Disabled => Some(String::new());
    // Separated by commas.
    Vec<String>:
        ParsedValue::Text(list) => Some(list.split(',').map(|part| part.trim().into()).collect()),
        ParsedValue::Disabled => Some(Vec::new());
}

impl<T: SettingType> SettingType for Option<T> {
    fn from_parsed(value: &ParsedValue, name: &str) -> Option<Self> {
        match value {
            ParsedValue::Disabled => Some(None),
            _ => T::from_parsed(value, name).map(Some),
        }
    }
}

/// In the unit with which the setting's name ends.
impl SettingType for Duration {
    fn from_parsed(value: &ParsedValue, name: &str) -> Option<Self> {
        let number = u64::from_parsed(value, name)?;
        match name.rsplit_once('_')?.1 {
            "us" => Some(Self::from_micros(number)),
            "ms" => Some(Self::from_millis(number)),
            "s" => Some(Self::from_secs(number)),
            _ => None,
        }
    }
}

fn within(n: u64, min: u64, max: u64) -> Option<ParsedValue> {
    (min..=max).contains(&n).then_some(ParsedValue::Number(n))
}

fn number(text: &str, radix: u32) -> Option<u64> {
    let digits = text.replace('_', "");
    // `from_str_radix` would also accept a sign.
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| u64::from_str_radix(&digits, radix).ok())?
}

fn devices(text: &str) -> Option<Vec<u32>> {
    if text == "all" {
        return Some(Vec::new());
    }
    let device = |text: &str| number(text.trim(), 10).and_then(|n| u32::try_from(n).ok());
    let mut numbers = text.split(',').map(device).collect::<Option<Vec<_>>>()?;
    numbers.sort_unstable();
    numbers.is_sorted_by(|a, b| a < b).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUESS: AutoBytes = AutoBytes { meaning: "a guess", bytes: |_| 0, embedded: 0 };
    const SIZE: SettingKind = SettingKind::Bytes { min: 1024, max: 1 << 30, auto: Some(GUESS) };
    const COUNT: SettingKind = SettingKind::Integer { unit: "jobs", min: 1, max: 10 };

    #[test]
    fn parses_devices_as_a_set_of_numbers() {
        let read = |text| SettingKind::Devices.parse(text);
        assert_eq!(read("all"), Some(ParsedValue::Devices(vec![])));
        assert_eq!(read("2, 0"), Some(ParsedValue::Devices(vec![0, 2])));
        for text in ["", "0,", "0,0", "-1", "none", "0 1", "4294967296"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        for (text, want) in [("1", Some(1)), ("10", Some(10)), (" 1_0 ", Some(10)), ("0", None)] {
            assert_eq!(COUNT.parse(text), want.map(ParsedValue::Number), "{text}");
        }
        for text in ["11", "", "-1", "+1", "1.5", "0x1", "1 MiB", "99999999999999999999"] {
            assert_eq!(COUNT.parse(text), None, "{text}");
        }
    }

    #[test]
    fn parses_bytes_with_units() {
        for (text, want) in [("1024", 1024), ("1 KiB", 1024), ("3MiB", 3 << 20), ("1 GiB", 1 << 30)]
        {
            assert_eq!(SIZE.parse(text), Some(ParsedValue::Number(want)), "{text}");
        }
        assert_eq!(SIZE.parse("auto"), Some(ParsedValue::Auto));
        assert_eq!(SettingKind::Bytes { min: 0, max: 1, auto: None }.parse("auto"), None);
        for text in ["1 MB", "KiB", "2 GiB", "1023", "99999999999 TiB", "1 KiB KiB"] {
            assert_eq!(SIZE.parse(text), None, "{text}");
        }
    }

    #[test]
    fn reads_addresses_and_names_of_hosts() {
        let parse = |text| SettingKind::Address.parse(text);
        let is_address = |text| matches!(parse(text), Some(ParsedValue::Address(_)));
        assert!(["127.0.0.1:0", "[::1]:655", "0.0.0.0:76"].into_iter().all(is_address));
        for host in ["localhost:1", "node-3.example.org:7654", "4u:0"] {
            assert_eq!(parse(host), Some(ParsedValue::Host(host.to_owned())));
        }
        for wrong in [
            "localhost",
            "localhost:",
            ":1",
            "a.example:65536",
            "localhost:+1",
            "a..b:1",
            "-a:1",
            "1.2.3:4",
            "256.0.0.1:4",
            "::1:4",
            "http://localhost:1",
            "a b:1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_host_has_its_ipv4_address_first() {
        assert_eq!(resolve("localhost:7").unwrap(), ([127, 0, 0, 1], 7).into());
        // Reserved, so that no resolver knows it (RFC 6761).
        assert!(resolve("no-such-host.invalid:7").is_err());
    }

    #[test]
    fn parses_the_other_kinds() {
        assert_eq!(SettingKind::Mode.parse("0660"), Some(ParsedValue::Number(0o660)));
        assert_eq!(SettingKind::Mode.parse("1000"), None);
        assert_eq!(SettingKind::Mode.parse("0o660"), None);
        assert_eq!(SettingKind::Address.parse("none"), Some(ParsedValue::Disabled));
        assert_eq!(SettingKind::Path.parse(""), None);
        assert_eq!(SettingKind::Flag.parse("yes"), None);
        assert_eq!(SettingKind::Text.parse("none"), Some(ParsedValue::Disabled));
        assert_eq!(SettingKind::Text.parse(" a b "), Some(ParsedValue::Text("a b".to_owned())));
        assert_eq!(SettingKind::Text.parse("a\nb"), None);
        assert!(SettingKind::Filter.parse("warn,capstan=debug").is_some());
        assert_eq!(SettingKind::Filter.parse("capstan=loud"), None);
    }
}
