//! Arguments that several commands share.

use std::{
    env, fs,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use capstan_math::text;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use zeroize::Zeroizing;

use super::exit::{CliFailure, Exit, Result, fail};
use crate::{
    client::{
        Client, ClientBuilder, Group, Order, Prime31, Priority, ScalarEncoding, SumEncoding,
        Verification,
    },
    formats::{kzg::SetupList, scalars::Notation},
};

/// Environment variable with the token to send. No argument has it as default, because `--help`
/// would print it.
const TOKEN_VARIABLE: &str = "CAPSTAN_TOKEN";

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Server to connect to: http://host:port, https://host:port or unix:/path
    #[arg(
        long,
        global = true,
        env = "CAPSTAN_SERVER",
        default_value = "http://127.0.0.1:7654",
        value_name = "URL"
    )]
    pub server: String,
    /// Print results on standard output and errors on standard error as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Number of connections for large payloads and concurrent jobs, 1 to 64
    #[arg(long, global = true, default_value_t = 4, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// Time limit of each call, retries included, such as 500ms, 30s or 5m [default: none]
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub deadline: Option<Duration>,
    /// How urgent the calls are among those of the same tenant
    #[arg(long, global = true, value_parser = word::<Priority>(), default_value = "normal",
          value_name = "WORD")]
    pub priority: Priority,
    /// Name for a proxy that chooses one of several servers by capstan-affinity: calls with the
    /// same name reach the same one. Proxies may log it: it must not be secret
    #[arg(long, global = true, env = "CAPSTAN_AFFINITY", value_name = "NAME")]
    pub affinity: Option<String>,
    /// PEM file of the authority that signed the server's certificate [default: the system's roots]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_certificate: Option<PathBuf>,
    /// File with the token to send [default: the token in the environment variable CAPSTAN_TOKEN]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Send the token over http:// to other hosts, too, where the network can read it
    #[arg(long, global = true)]
    pub allow_plaintext_token: bool,
    /// PEM file of the client certificate to send, leaf first; requires --tls-key
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the client certificate's private key; requires --tls-cert
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Send large payloads in messages, even if the server could share memory with this process
    #[arg(long, global = true)]
    pub no_shared_memory: bool,
    /// Do not print progress or timings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print the time of every phase, the engine and the device
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl GlobalArgs {
    pub fn client_builder(&self) -> Result<ClientBuilder> {
        let mut builder = Client::builder(&self.server)
            .connections(self.connections.into())
            .shared_memory(!self.no_shared_memory)
            .priority(self.priority);
        if let Some(deadline) = self.deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(name) = &self.affinity {
            builder = builder.affinity(name);
        }
        let read =
            |path: &Path| fs::read(path).map_err(|error| CliFailure::input(path.display(), &error));
        let certificates = |path: &Path| {
            let pem = read(path)?;
            match text::certificates(&pem) {
                Ok(_) => Ok(pem),
                Err(problem) => fail(Exit::Data, format!("{} {problem}", path.display())),
            }
        };
        if let Some(path) = &self.ca_certificate {
            builder = builder.ca_certificate(certificates(path)?);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let pem = Zeroizing::new(read(key)?);
            if let Err(problem) = text::private_key(&pem) {
                return fail(Exit::Data, format!("{} {problem}", key.display()));
            }
            builder = builder.client_certificate(certificates(certificate)?, &**pem);
        }
        if let Some(token) = self.token()? {
            builder = builder.token(token).allow_plaintext_token(self.allow_plaintext_token);
        }
        Ok(builder)
    }

    /// The token of the file or of the environment.
    fn token(&self) -> Result<Option<String>> {
        let text = match &self.token_file {
            Some(path) => {
                let text = fs::read_to_string(path);
                text.map_err(|error| CliFailure::input(path.display(), &error))?
            }
            None => match env::var(TOKEN_VARIABLE) {
                Ok(text) if !text.is_empty() => text,
                Ok(_) | Err(env::VarError::NotPresent) => return Ok(None),
                Err(env::VarError::NotUnicode(_)) => {
                    return fail(Exit::Usage, format!("{TOKEN_VARIABLE} is not UTF-8"));
                }
            },
        };
        let text = Zeroizing::new(text);
        Ok(Some(text.trim_start_matches('\u{feff}').trim().to_owned()))
    }
}

/// Whether the arguments ask for JSON, even if they are invalid.
pub fn asks_for_json() -> bool {
    let options = env::args_os().skip(1).take_while(|argument| argument != "--");
    options.into_iter().any(|argument| argument == "--json")
}

/// A type whose values have words. Unlike clap's `ValueEnum`, it can be implemented for types of
/// other packages.
pub trait Words: Copy + PartialEq + Send + Sync + 'static {
    /// All values and their words, in the order in which `--help` lists them.
    fn words() -> Vec<(Self, PossibleValue)>;
}

/// A parser of the words of a type. `--help`, completions and errors list them.
pub fn word<T: Words>() -> impl TypedValueParser<Value = T> {
    let words = T::words();
    let parser = PossibleValuesParser::new(words.iter().map(|(_, word)| word.clone()));
    parser.map(move |text| {
        let found = words.iter().find(|(_, word)| word.matches(&text, false));
        found.expect("the parser accepts only these words").0
    })
}

/// Declares the words for a type's values, with aliases and help.
macro_rules! words {
    ($type:ty {
        $($value:ident: $word:literal $(| $alias:literal)* $(=> $help:literal)?),+ $(,)?
    }) => {
        impl Words for $type {
            fn words() -> Vec<(Self, PossibleValue)> {
                vec![$((
                    Self::$value,
                    PossibleValue::new($word)$(.alias($alias))*$(.help($help))?,
                )),+]
            }
        }
    };
}

words!(Group {
    G1: "g1" => "The subgroup of E(Fp)",
    G2: "g2" => "The subgroup of E'(Fp2)",
});

impl Words for Prime31 {
    fn words() -> Vec<(Self, PossibleValue)> {
        Self::ALL.iter().map(|prime| (*prime, PossibleValue::new(prime.name()))).collect()
    }
}

words!(Verification {
    Probabilistic: "probabilistic"
        => "Check at random points or of random combinations, which costs less",
    Full: "full" => "Compute again on the server's CPU, in another way, and compare",
});

words!(SumEncoding {
    Compressed: "compressed" => "x and a flag: 48 bytes (g1), 96 bytes (g2)",
    Uncompressed: "uncompressed" => "x and y: 96 or 192 bytes",
    Projective: "projective" => "Jacobian X, Y, Z as Montgomery limbs: 144 or 288 bytes",
});

words!(Priority {
    Urgent: "urgent" => "Before other calls of the tenant",
    Normal: "normal",
    Batch: "batch" => "After other calls of the tenant",
});

words!(Order { Natural: "natural", BitReversed: "bit-reversed" });

words!(SetupList {
    G1Lagrange: "lagrange" | "g1-lagrange" | "g1_lagrange"
        => "G1 Lagrange points, for commitments to evaluations",
    G1Monomial: "monomial" | "g1-monomial" | "g1_monomial"
        => "G1 monomial points, for commitments to coefficients",
    G2Monomial: "g2-monomial" | "g2" | "g2_monomial" => "G2 monomial points, for checks of proofs",
});

/// Encoding of scalars in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarFormat {
    Binary(ScalarEncoding),
    /// 32 bytes big-endian, as in EIP-4844.
    BigEndian,
    Text(Notation),
}

impl FromStr for ScalarFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        use ScalarEncoding::{Canonical, Montgomery, Signed, Unsigned};
        Ok(Self::Binary(match name {
            "big-endian" => return Ok(Self::BigEndian),
            "hex" => return Ok(Self::Text(Notation::Hex)),
            "decimal" => return Ok(Self::Text(Notation::Decimal)),
            "canonical" => Canonical,
            "montgomery" => Montgomery,
            "u8" => Unsigned(1),
            "u16" => Unsigned(2),
            "u32" => Unsigned(4),
            "u64" => Unsigned(8),
            "u128" => Unsigned(16),
            "i8" => Signed(1),
            "i16" => Signed(2),
            "i32" => Signed(4),
            "i64" => Signed(8),
            "i128" => Signed(16),
            _ => {
                let expected =
                    "canonical, montgomery, big-endian, hex, decimal, u8-u128 or i8-i128";
                return Err(format!("expected {expected}"));
            }
        }))
    }
}

/// Help for arguments that take a [`ScalarFormat`].
pub const SCALAR_FORMATS: &str = "\
Encodings of scalars:
  canonical   32 bytes little-endian, less than r
  montgomery  four 64-bit limbs in Montgomery form, little-endian, as in arkworks and blst
  big-endian  32 bytes big-endian, as in EIP-4844's blobs
  hex         one integer per line, at most 64 digits, with or without 0x
  decimal     one integer per line; -1 means r - 1
  u8 .. u128, i8 .. i128  narrow integers, little-endian (msm only)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, expected_ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("0s", 0)] {
            let time = humantime::parse_duration(text).unwrap();
            assert_eq!(time, Duration::from_millis(expected_ms));
        }
        for invalid in ["", "5", "s", "-1s", "99999999999999999999s"] {
            assert!(humantime::parse_duration(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn every_scalar_encoding_has_a_name() {
        for width in [1, 2, 4, 8, 16] {
            for (letter, encoding) in
                [("u", ScalarEncoding::Unsigned(width)), ("i", ScalarEncoding::Signed(width))]
            {
                let name = format!("{letter}{}", 8 * u32::from(width));
                assert_eq!(name.parse(), Ok(ScalarFormat::Binary(encoding)));
            }
        }
        assert!("u256".parse::<ScalarFormat>().is_err());
    }
}
