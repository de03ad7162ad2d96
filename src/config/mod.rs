//! The daemon's configuration, from a file, `CAPSTAN_*` variables and flags. [`table`] lists every
//! setting. Only the binary reads the configuration; other modules receive values.

mod build;
mod command;
mod kind;
mod kubernetes;
mod memory;
mod source;
pub mod table;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;

pub use command::command;
pub use kind::{ByteSize, ParsedValue, SettingKind};
pub use source::{ConfigProblem, RawValue};

use crate::{server::ServerSettings, telemetry::LogFormat};
use table::{Setting, TABLE};

/// The daemon's configuration, checked as a whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server's settings.
    pub server: ServerSettings,
    /// The engine to use.
    pub engine: EngineChoice,
    /// GPU settings.
    pub cuda: CudaSettings,
    /// Threads of the CPU engine; 0 for one per core.
    pub threads: usize,
    /// Threads that recheck results; 0 for one per core.
    pub verify_threads: usize,
    /// Address of the Prometheus endpoint; `None` for no endpoint.
    pub metrics_listen: Option<SocketAddr>,
    /// Log format.
    pub log_format: LogFormat,
    /// Log filter, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log_level: String,
}

/// The engine that the operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// GPUs if any can be used, otherwise the CPU.
    Auto,
    /// The CPU engine.
    Cpu,
    /// GPUs; without one the daemon does not start.
    Cuda,
}

/// GPU settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaSettings {
    /// Path of the driver library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Device numbers; empty for all.
    pub devices: Vec<u32>,
    /// Number of usable GPUs required to start.
    pub devices_min: u32,
    /// Percentage of the free device memory to take, 1 to 100.
    pub memory_percent: u64,
    /// Host memory to pin for payloads.
    pub pinned_bytes: u64,
    /// Time limit for one piece of work on a device.
    pub timeout: Duration,
    /// MSMs with fewer scalars run on the CPU.
    pub msm_min: u64,
    /// NTTs with fewer elements run on the CPU.
    pub ntt_min: u64,
}

/// The value of one setting and its source.
#[derive(Debug, Clone)]
pub struct SettingValue {
    setting: &'static Setting,
    parsed: ParsedValue,
    /// `None` for the default.
    raw: Option<RawValue>,
}

/// The value of every setting, each of its kind and in its range.
#[derive(Debug, Clone)]
pub struct SettingValues(Vec<SettingValue>);

impl SettingValues {
    /// Reads every value and checks it by itself.
    ///
    /// Errors: every problem, not only the first.
    pub fn read(
        flags: &ArgMatches,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let given = source::read_sources(source::config_file(flags).as_deref(), env, flags)?;
        let mut problems = Vec::new();
        let mut values = Vec::new();
        for (setting, given) in TABLE.iter().zip(given) {
            let text = given.as_ref().map_or(setting.default, |given| given.text.as_str());
            match (setting.kind.parse(text), &given) {
                (Some(held), _) => values.push(SettingValue { setting, parsed: held, raw: given }),
                (None, given) => {
                    let source = given.as_ref().map_or("default", |given| given.source.as_str());
                    problems.push(ConfigProblem::new(format!(
                        "{} = {text:?} ({source}): must be {}",
                        setting.name, setting.kind
                    )));
                }
            }
        }
        if problems.is_empty() { Ok(Self(values)) } else { Err(problems) }
    }

    /// Checks the values together and builds the configuration.
    ///
    /// Errors: every contradiction between values, and every file that cannot be read.
    pub fn check(&self) -> Result<Config, Vec<ConfigProblem>> {
        build::build(self)
    }

    /// The values as a TOML file, in which defaults are comments.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Settings of capstand. Flags override CAPSTAN_* variables, ");
        text += "which override this file.\n";
        for SettingValue { setting, raw: given, .. } in &self.0 {
            let held = given.as_ref().map_or(setting.default, |given| given.text.trim());
            let quote = if setting.kind.is_bare(held) { "" } else { "\"" };
            let comment = if given.is_none() { "# " } else { "" };
            let held = held.replace('\\', "\\\\").replace('"', "\\\"");
            text += &format!("\n# {}\n# {}.\n", setting.about, setting.kind);
            text += &format!("{comment}{} = {quote}{held}{quote}\n", setting.name);
        }
        text
    }

    fn get(&self, name: &str) -> &SettingValue {
        let found = self.0.iter().find(|value| value.setting.name == name);
        found.expect("the name is in the table")
    }
}

#[cfg(test)]
mod tests;
