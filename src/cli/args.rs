//! What the command line can say.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

#[cfg(feature = "server")]
use super::demo::DemoArgs;
use super::{bases::BasesCommand, bench::BenchArgs, exit, msm::MsmArgs, ntt::NttArgs};
use crate::{
    client::{Group, ScalarEncoding, Verify},
    formats::scalars::Radix,
};

/// MSM and NTT over BLS12-381 on a capstand server.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, after_help = exit::HELP, max_term_width = 100)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// Which one.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For every command")]
pub struct Global {
    /// The server: http://host:port, https://host:port or unix:/path
    #[arg(
        long,
        global = true,
        env = "CAPSTAN_SERVER",
        default_value = "http://127.0.0.1:7654",
        value_name = "URL"
    )]
    pub server: String,
    /// JSON on standard output, for errors on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Connections to spread large payloads and concurrent jobs over, 1 to 64
    #[arg(long, global = true, default_value_t = 4, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// How long each call may take, retries included: 500ms, 30s, 5m; without: for ever
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// PEM file of the authority that signed an https server's certificate; without: the system's
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_certificate: Option<PathBuf>,
    /// No progress, no timings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Every phase's time, and who did the work
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the main job end to end, on a server in this process
    #[cfg(feature = "server")]
    Demo(DemoArgs),
    /// What the server is: engine, devices, limits, load
    Info,
    /// Points on the server: import, list, show, rm, export
    #[command(subcommand)]
    Bases(BasesCommand),
    /// Multi-scalar multiplication: sums of scalars times bases
    Msm(MsmArgs),
    /// Number-theoretic transform of rows of field elements
    Ntt(NttArgs),
    /// Measure latency and throughput of a running server
    Bench(BenchArgs),
    /// Take the server down gently: it refuses new work and finishes what it accepted
    Drain {
        /// How long accepted jobs may take; without: what the server was configured with
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
        grace: Duration,
    },
    /// Print a shell's completion script
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// How the server checks a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// NTT: at a secret random point. MSM: by one more, of a random combination
    Probabilistic,
    /// Recomputed by arkworks
    Full,
}

impl From<VerifyArg> for Verify {
    fn from(how: VerifyArg) -> Self {
        match how {
            VerifyArg::Full => Self::Full,
            VerifyArg::Probabilistic => Self::Probabilistic,
        }
    }
}

/// A group, as arguments write it.
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

/// How a file writes scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarFormat {
    /// As the wire does.
    Binary(ScalarEncoding),
    /// 32 bytes big-endian, as EIP-4844 does.
    BigEndian,
    /// One integer a line.
    Text(Radix),
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
            "hex" => Self::Text(Radix::Hex),
            "decimal" => Self::Text(Radix::Decimal),
            _ => {
                let narrow = NARROW.iter().find(|(known, _)| *known == name);
                let (_, encoding) = narrow.ok_or(
                    "canonical, montgomery, big-endian, hex, decimal, u8 to u128, or i8 to i128",
                )?;
                Self::Binary(*encoding)
            }
        })
    }
}

/// For arguments that take a [`ScalarFormat`].
pub const SCALAR_FORMATS: &str = "\
How the scalars are written:
  canonical   32 bytes little-endian, less than r
  montgomery  four 64-bit limbs in Montgomery form, little-endian, as arkworks and blst hold them
  big-endian  32 bytes big-endian, as EIP-4844's blobs
  hex         one integer a line, at most 64 digits, 0x or not
  decimal     one integer a line, -1 being r - 1
  u8 .. u128, i8 .. i128  narrow integers, little-endian (msm only)";

/// Reads `500ms`, `30s`, `5m`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| "a number and a unit, such as 30s".to_owned())?;
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
    fn the_arguments_are_consistent() {
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
