//! The daemon's configuration: file, then `CAPSTAN_*` environment, then flags, checked once.
//! [`table`] has every setting; the binary hands the values down, nobody else reads them here.

mod check;
mod command;
mod kind;
mod links;
mod memory;
mod source;
pub mod table;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;

pub use command::command;
pub use kind::{Held, Kind, Size};
pub use source::{Given, Problem};

use crate::{server::Settings, telemetry::LogFormat};
use table::{Setting, TABLE};

/// The daemon's configuration, valid as a whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the server needs.
    pub server: Settings,
    /// What computes.
    pub engine: EngineChoice,
    /// Which GPUs may be used, and how.
    pub cuda: Cuda,
    /// Threads of the CPU engine; 0 for one a core.
    pub threads: usize,
    /// Threads that recheck results; 0 for one a core.
    pub verify_threads: usize,
    /// Where Prometheus may scrape; `None` for nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Form of the log.
    pub log_format: LogFormat,
    /// What is logged, as `tracing_subscriber::EnvFilter` reads it.
    pub log_level: String,
}

/// Which engine the operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The fastest that works here.
    Auto,
    /// The CPU engine.
    Cpu,
    /// GPUs, or nothing.
    Cuda,
}

/// What was said about GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuda {
    /// The driver's library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Numbers of the devices; none for all.
    pub devices: Vec<u32>,
    /// GPUs without which the daemon does not start.
    pub devices_min: u32,
    /// Share of the free device memory to take, 1 to 100.
    pub memory_percent: u64,
    /// Host memory to pin for payloads.
    pub pinned_bytes: u64,
    /// How long a device may take for one piece of work.
    pub timeout: Duration,
    /// MSMs of fewer scalars are the CPU's.
    pub msm_min: u64,
    /// NTTs of fewer elements are the CPU's.
    pub ntt_min: u64,
}

/// The value of one row and where it came from.
#[derive(Debug, Clone)]
pub struct Value {
    setting: &'static Setting,
    held: Held,
    /// `None` where the default holds.
    given: Option<Given>,
}

/// Every row's value: each is of its kind and in its range.
#[derive(Debug, Clone)]
pub struct Values(Vec<Value>);

impl Values {
    /// Reads and checks each value by itself.
    ///
    /// Errors: every problem found, not only the first.
    pub fn read(
        flags: &ArgMatches,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<Problem>> {
        let given = source::gather(source::file(flags).as_deref(), env, flags)?;
        let mut problems = Vec::new();
        let mut values = Vec::new();
        for (setting, given) in TABLE.iter().zip(given) {
            let text = given.as_ref().map_or(setting.default, |given| given.text.as_str());
            match (setting.kind.parse(text), &given) {
                (Some(held), _) => values.push(Value { setting, held, given }),
                (None, given) => {
                    let source = given.as_ref().map_or("default", |given| given.source.as_str());
                    problems.push(Problem::new(format!(
                        "{} = {text:?} ({source}): must be {}",
                        setting.name, setting.kind
                    )));
                }
            }
        }
        if problems.is_empty() { Ok(Self(values)) } else { Err(problems) }
    }

    /// The configuration that these values make together.
    ///
    /// Errors: every pair of values that do not go together, every file that cannot be read.
    pub fn check(&self) -> Result<Config, Vec<Problem>> {
        check::config(self)
    }

    /// The values as a file: what is not set is a comment with its default.
    pub fn to_toml(&self) -> String {
        let mut text =
            String::from("# The daemon's settings. Flags win over CAPSTAN_* variables, ");
        text += "those over this file.\n";
        for Value { setting, given, .. } in &self.0 {
            let held = given.as_ref().map_or(setting.default, |given| given.text.trim());
            let quote = if setting.kind.is_bare(held) { "" } else { "\"" };
            let comment = if given.is_none() { "# " } else { "" };
            let held = held.replace('\\', "\\\\").replace('"', "\\\"");
            text += &format!("\n# {}\n# {}.\n", setting.about, setting.kind);
            text += &format!("{comment}{} = {quote}{held}{quote}\n", setting.name);
        }
        text
    }

    fn get(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|value| value.setting.name == name);
        found.expect("only names of the table are asked for")
    }
}

#[cfg(test)]
mod tests;
