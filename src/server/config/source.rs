//! Sources of values: file, environment and flags, each of which overrides the previous one.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use clap::ArgMatches;
use serde_json::Value;

use super::kubernetes::is_service_link;
use crate::{
    settings::{self, SettingKind, TABLE},
    tenant::from_toml,
};

/// Read unless it is absent or `--config` names another file.
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
#[error("{text}")]
pub struct ConfigProblem {
    text: String,
    kind: ProblemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProblemKind {
    Wrong,
    Unresolved,
    LeftOut,
}

impl ConfigProblem {
    pub(super) fn wrong(text: String) -> Self {
        Self { text, kind: ProblemKind::Wrong }
    }

    /// For the name of a host that has no address at the moment.
    pub(super) fn unresolved(self) -> Self {
        Self { kind: ProblemKind::Unresolved, ..self }
    }

    /// For an entry of a file without which the daemon starts.
    pub(super) fn left_out(self) -> Self {
        Self { kind: ProblemKind::LeftOut, ..self }
    }

    /// Whether the problem is an entry of a file without which the daemon starts.
    pub fn is_left_out(&self) -> bool {
        self.kind == ProblemKind::LeftOut
    }

    /// Whether nothing is wrong with the configuration itself: the name of a host has no address at
    /// the moment, so that a later start may succeed.
    pub fn is_transient(&self) -> bool {
        self.kind == ProblemKind::Unresolved
    }
}

/// What the sources contain.
pub struct SourceContent {
    /// The given value of each setting, in the table's order; `None` for the default.
    pub given: Vec<Option<RawValue>>,
    pub problems: Vec<ConfigProblem>,
    /// Settings that may have other values than `given`, because of a problem.
    pub uncertain: Vec<&'static str>,
}

/// A value from a source, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    /// The text, whatever type it has in the file.
    pub text: String,
    /// `--jobs-max`, `environment CAPSTAN_JOBS_MAX`, or the file's path.
    pub source: String,
}

pub fn read_sources(
    env: impl IntoIterator<Item = (OsString, OsString)>,
    flags: &ArgMatches,
) -> SourceContent {
    let (mut problems, mut uncertain) = (Vec::new(), Vec::new());
    let mut values = BTreeMap::new();
    if let Some(path) = config_file(flags) {
        match from_file(&path) {
            Ok(found) => values.extend(found),
            Err(problem) => {
                problems.push(problem);
                uncertain.extend(TABLE.iter().map(|setting| setting.name));
            }
        }
    }
    values.extend(from_env(env, &mut problems));
    values.extend(from_flags(flags));
    for (name, value) in values.iter().filter(|(name, _)| settings::find(name).is_none()) {
        let meant = similar_setting(name);
        let suggestion = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let text = format!("{name} ({}): no such setting{suggestion}", value.source);
        problems.push(ConfigProblem::wrong(text));
        uncertain.extend(meant);
    }
    let given = TABLE.iter().map(|setting| values.remove(setting.name)).collect();
    SourceContent { given, problems, uncertain }
}

/// The file to read: that of `--config`, or the default unless it is absent.
pub fn config_file(flags: &ArgMatches) -> Option<PathBuf> {
    let default = || Some(PathBuf::from(FILE_DEFAULT)).filter(|path| !is_absent(path));
    flags.get_one::<PathBuf>("config").cloned().or_else(default)
}

/// Whether nothing has this name. A path that cannot be examined, or that leads through a dangling
/// link, is not absent: reading it fails and says why.
pub fn is_absent(path: &Path) -> bool {
    let is_missing = |path: &Path| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let mut nearest = path.ancestors().skip_while(|path| is_missing(path));
    // The nearest name that exists may be a link to a folder that does not.
    is_missing(path) && nearest.next().is_none_or(|folder| fs::metadata(folder).is_ok())
}

/// Values by setting name, from one source.
type SourceValues = BTreeMap<String, RawValue>;

/// Errors: the file cannot be read, or is not TOML.
fn from_file(path: &Path) -> Result<SourceValues, ConfigProblem> {
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigProblem::wrong(format!("--config {}: {error}", path.display())))?;
    let values: BTreeMap<String, Value> = from_toml(&text)
        .map_err(|problem| ConfigProblem::wrong(format!("{}: {problem}", path.display())))?;
    let values = values.into_iter().map(|(name, value)| {
        let text = text_of(value, settings::find(&name).map(|place| TABLE[place].kind));
        (name, RawValue { text, source: path.display().to_string() })
    });
    Ok(values.collect())
}

fn from_env(
    env: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &mut Vec<ConfigProblem>,
) -> SourceValues {
    let mut values = SourceValues::new();
    for (key, value) in env {
        let Some(name) = key.to_str().filter(|key| !ENV_IGNORED.contains(key)) else { continue };
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let source = format!("environment {PREFIX}{name}");
        match value.into_string() {
            Ok(text) if is_service_link(name, &text) => {}
            Ok(text) => {
                values.insert(name.to_ascii_lowercase(), RawValue { text, source });
            }
            Err(_) => problems.push(ConfigProblem::wrong(format!("{source}: not UTF-8"))),
        }
    }
    values
}

fn from_flags(flags: &ArgMatches) -> SourceValues {
    let values = TABLE.iter().filter_map(|setting| {
        let text = flags.get_one::<String>(setting.name)?.clone();
        let source = format!("--{}", setting.name.replace('_', "-"));
        Some((setting.name.to_owned(), RawValue { text, source }))
    });
    values.collect()
}

/// The value as text, as on the command line. Tables and lists become text that never parses.
fn text_of(value: Value, kind: Option<SettingKind>) -> String {
    match value {
        Value::String(text) => text,
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match (number.as_u64(), kind) {
            // TOML's 0o660 is read as 432.
            (Some(mode), Some(SettingKind::Mode)) => format!("{mode:o}"),
            _ => number.to_string(),
        },
        Value::Object(_) => "{table}".to_owned(),
        Value::Array(_) => "[list]".to_owned(),
        // Infinity or NaN, which JSON cannot represent.
        Value::Null => "nan".to_owned(),
    }
}

/// The setting with the most similar name, if it is similar enough to be meant.
fn similar_setting(name: &str) -> Option<&'static str> {
    let distances = TABLE.iter().map(|other| (strsim::levenshtein(name, other.name), other.name));
    distances.min().filter(|(distance, _)| *distance <= 3).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_name_that_nothing_has_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("circular", at("circular")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink("folder", at("link")).unwrap();
        for present in ["file", "dangling", "circular", "dangling/file", "circular/file", "file/x"]
        {
            assert!(!is_absent(&at(present)), "{present}");
        }
        for absent in ["none", "none/file", "folder/none", "folder/none/file", "link/none"] {
            assert!(is_absent(&at(absent)), "{absent}");
        }
    }
}
