//! Sources of values: file, environment and flags, each of which overrides the previous one.

use std::{ffi::OsString, fs, path::PathBuf};

use clap::ArgMatches;
use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Toml},
    value::{Dict, Map, Num, Value},
};

use super::{
    kind::SettingKind,
    kubernetes::is_service_link,
    table::{self, TABLE},
};

/// Read if it exists and `--config` names no other file.
pub const FILE_DEFAULT: &str = "/etc/capstan/capstand.toml";

const PREFIX: &str = "CAPSTAN_";
/// Variables that are not settings: the client's, the build's, and that of `--config`.
const ENV_IGNORED: [&str; 9] = [
    "CAPSTAN_CONFIG",
    "CAPSTAN_AFFINITY",
    "CAPSTAN_SERVER",
    "CAPSTAN_TOKEN",
    "CAPSTAN_LOG",
    "CAPSTAN_NVCC",
    "CAPSTAN_CUDA_ARCHS",
    "CAPSTAN_FATBINS",
    "CAPSTAN_REQUIRE_KERNELS",
];

/// An invalid setting, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigProblem(pub(super) String);

/// A value from a source, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    /// The text, whatever type it has in the file.
    pub text: String,
    /// `--jobs-max`, `environment CAPSTAN_JOBS_MAX`, or the file's path.
    pub source: String,
}

/// The given value of each setting, in the table's order; `None` for the default.
pub fn read_sources(
    env: impl IntoIterator<Item = (OsString, OsString)>,
    flags: &ArgMatches,
) -> Result<Vec<Option<RawValue>>, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let mut figment = Figment::new();
    if let Some(path) = config_file(flags) {
        // Figment treats a missing file as empty.
        if let Err(error) = fs::File::open(&path) {
            problems.push(ConfigProblem(format!("--config {}: {error}", path.display())));
        }
        figment = figment.merge(Toml::file_exact(path));
    }
    let figment = figment.merge(from_env(env, &mut problems)).merge(from_flags(flags));
    let values = match figment.extract::<Dict>() {
        Ok(values) => values,
        Err(error) => {
            problems.extend(error.into_iter().map(|e| ConfigProblem(e.to_string())));
            return Err(problems);
        }
    };
    let source = |name: &str| source_of(&figment, name);
    for name in values.keys().filter(|name| table::find(name).is_none()) {
        problems.push(ConfigProblem(format!(
            "{name} ({}): no such setting{}",
            source(name),
            suggestion(name)
        )));
    }
    let given = TABLE.iter().map(|setting| {
        let value = values.get(setting.name)?;
        Some(RawValue { text: text_of(value, setting.kind), source: source(setting.name) })
    });
    if problems.is_empty() { Ok(given.collect()) } else { Err(problems) }
}

/// The file to read: that of `--config`, or the default if it exists.
pub fn config_file(flags: &ArgMatches) -> Option<PathBuf> {
    let default = || Some(PathBuf::from(FILE_DEFAULT)).filter(|path| path.exists());
    flags.get_one::<PathBuf>("config").cloned().or_else(default)
}

/// Values as text by setting name, from one source.
struct TextProvider {
    source: &'static str,
    values: Dict,
}

impl Provider for TextProvider {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

fn from_env(
    env: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &mut Vec<ConfigProblem>,
) -> TextProvider {
    let mut values = Dict::new();
    for (key, value) in env {
        let Some(name) = key.to_str().filter(|key| !ENV_IGNORED.contains(key)) else { continue };
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        match value.into_string() {
            Ok(text) if is_service_link(name, &text) => {}
            Ok(text) => drop(values.insert(name.to_ascii_lowercase(), text.into())),
            Err(_) => {
                problems.push(ConfigProblem(format!("environment {PREFIX}{name}: not UTF-8")))
            }
        }
    }
    TextProvider { source: "environment", values }
}

fn from_flags(flags: &ArgMatches) -> TextProvider {
    let values = TABLE.iter().filter_map(|setting| {
        let text = flags.get_one::<String>(setting.name)?;
        Some((setting.name.to_owned(), text.clone().into()))
    });
    TextProvider { source: "flag", values: values.collect() }
}

fn source_of(figment: &Figment, name: &str) -> String {
    let Some(metadata) = figment.find_metadata(name) else { return "default".to_owned() };
    match (metadata.source.as_ref().and_then(|s| s.file_path()), metadata.name.as_ref()) {
        (Some(path), _) => path.display().to_string(),
        (None, "flag") => format!("--{}", name.replace('_', "-")),
        (None, source) => format!("{source} {PREFIX}{}", name.to_ascii_uppercase()),
    }
}

/// The value as text, as on the command line. Tables and lists become text that never parses.
fn text_of(value: &Value, kind: SettingKind) -> String {
    match (value, kind) {
        (Value::String(_, text), _) => text.clone(),
        (Value::Bool(_, flag), _) => flag.to_string(),
        // TOML's 0o660 is read as 432.
        (Value::Num(_, number), SettingKind::Mode) => {
            let mode = number_text(*number).parse::<u64>();
            mode.map_or_else(|_| number_text(*number), |mode| format!("{mode:o}"))
        }
        (Value::Num(_, number), _) => number_text(*number),
        (Value::Char(_, letter), _) => letter.to_string(),
        (Value::Dict(..), _) => "{table}".to_owned(),
        (Value::Array(..), _) => "[list]".to_owned(),
        (Value::Empty(..), _) => String::new(),
    }
}

fn number_text(number: Num) -> String {
    let signed = number.to_i128().map(|n| n.to_string());
    let integer = signed.or_else(|| number.to_u128().map(|n| n.to_string()));
    integer.or_else(|| number.to_f64().map(|n| n.to_string())).unwrap_or_default()
}

/// `; did you mean jobs_max?` if a setting has a similar name.
fn suggestion(name: &str) -> String {
    let distances = TABLE.iter().map(|other| (strsim::levenshtein(name, other.name), other.name));
    match distances.min() {
        Some((distance, other)) if distance <= 3 => format!("; did you mean {other}?"),
        _ => String::new(),
    }
}
