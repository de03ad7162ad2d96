//! Arguments of the command line.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

#[cfg(feature = "server")]
use super::demo::DemoArgs;
use super::{bases::BasesCommand, bench::BenchArgs, exit, msm::MsmArgs, ntt::NttArgs};
use crate::{
    client::{Group, ScalarEncoding, Verification},
    formats::scalars::Notation,
};

/// Compute MSMs and NTTs over BLS12-381 on a capstand server.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, after_help = exit::HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

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
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// PEM file of the authority that signed the server's certificate [default: the system's roots]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_certificate: Option<PathBuf>,
    /// Do not print progress or timings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print the time of every phase, the engine and the device
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an end-to-end example on a server in this process
    #[cfg(feature = "server")]
    Demo(DemoArgs),
    /// Show the server's engine, devices, limits and load
    Info,
    /// Manage points on the server
    #[command(subcommand)]
    Bases(BasesCommand),
    /// Compute multi-scalar multiplications: sums of scalars times bases
    Msm(MsmArgs),
    /// Compute number-theoretic transforms of rows of field elements
    Ntt(NttArgs),
    /// Measure the latency and throughput of a running server
    Bench(BenchArgs),
    /// Shut the server down: it refuses new work and finishes accepted jobs
    Drain {
        /// Time limit for accepted jobs; 0s uses the server's configuration
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
        grace: Duration,
    },
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// NTT: evaluate at a secret random point; MSM: compute one more of a random combination
    Probabilistic,
    /// Recompute with arkworks
    Full,
}

impl From<VerifyArg> for Verification {
    fn from(how: VerifyArg) -> Self {
        match how {
            VerifyArg::Full => Self::Full,
            VerifyArg::Probabilistic => Self::Probabilistic,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupArg {
    /// The subgroup of E(Fp)
    G1,
    /// The subgroup of E'(Fp2)
    G2,
}

impl From<GroupArg> for Group {
    fn from(group: GroupArg) -> Self {
        match group {
            GroupArg::G1 => Self::G1,
            GroupArg::G2 => Self::G2,
        }
    }
}

/// Encoding of scalars in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarFormat {
    /// An encoding of the protocol.
    Binary(ScalarEncoding),
    /// 32 bytes big-endian, as in EIP-4844.
    BigEndian,
    /// One integer per line.
    Text(Notation),
}

const NARROW: [(&str, ScalarEncoding); 10] = [
    ("u8", ScalarEncoding::Unsigned(1)),
    ("u16", ScalarEncoding::Unsigned(2)),
    ("u32", ScalarEncoding::Unsigned(4)),
    ("u64", ScalarEncoding::Unsigned(8)),
    ("u128", ScalarEncoding::Unsigned(16)),
    ("i8", ScalarEncoding::Signed(1)),
    ("i16", ScalarEncoding::Signed(2)),
    ("i32", ScalarEncoding::Signed(4)),
    ("i64", ScalarEncoding::Signed(8)),
    ("i128", ScalarEncoding::Signed(16)),
];

impl FromStr for ScalarFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "canonical" => Self::Binary(ScalarEncoding::Canonical),
            "montgomery" => Self::Binary(ScalarEncoding::Montgomery),
            "big-endian" => Self::BigEndian,
            "hex" => Self::Text(Notation::Hex),
            "decimal" => Self::Text(Notation::Decimal),
            _ => {
                let narrow = NARROW.iter().find(|(known, _)| *known == name);
                let (_, encoding) = narrow.ok_or(
                    "expected canonical, montgomery, big-endian, hex, decimal, u8-u128 or i8-i128",
                )?;
                Self::Binary(*encoding)
            }
        })
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

/// Parses durations such as `500ms`, `30s`, `5m` and `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 =
        number.parse().map_err(|_| "expected a number and a unit, such as 30s".to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err("the unit must be ms, s, m or h".to_owned()),
    };
    milliseconds.map(Duration::from_millis).ok_or_else(|| "too long".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "5", "s", "-1s", "1.5s", "1d", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
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
