//! The value of every setting, read from its sources.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;

use super::{
    kind::{ParsedValue, SettingKind, resolve},
    source::{ConfigProblem, RawValue, SourceContent, read_sources},
    table::{Setting, TABLE},
};
use crate::{buffer::ByteSize, grpc::ServerSettings};

#[derive(Debug, Clone)]
struct SettingValue {
    setting: &'static Setting,
    parsed: ParsedValue,
    /// `None` for the default.
    raw: Option<RawValue>,
}

/// Declares getters of values of one kind; `None` for the words `auto` and `none`.
macro_rules! getters {
    ($($name:ident($variant:ident) -> $type:ty;)+) => {
        $(pub(super) fn $name(&self, name: &str) -> Option<$type> {
            match &self.get(name).parsed {
                ParsedValue::$variant(value) => Some(value.clone()),
                _ => None,
            }
        })+
    };
}

/// The value of every setting, each of its kind and in its range.
#[derive(Debug, Clone)]
pub struct SettingValues(Vec<SettingValue>);

impl SettingValues {
    /// Reads every value and checks it by itself.
    ///
    /// Errors: every problem, not only the first. Those of [`Self::check`] are among them, apart
    /// from those that depend on a value that cannot be read.
    pub fn read(
        flags: &ArgMatches,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let SourceContent { given, mut problems, mut uncertain } = read_sources(env, flags);
        let mut values = Vec::new();
        for (setting, raw) in TABLE.iter().zip(given) {
            let text = raw.as_ref().map_or(setting.default, |raw| raw.text.as_str());
            let wrong = |text: &str| problem(setting, raw.as_ref(), text);
            let parsed = match setting.kind.parse(text) {
                Some(ParsedValue::Host(host)) => resolve(&host)
                    .map(ParsedValue::Address)
                    .map_err(|error| wrong(&error.to_string()).unresolved()),
                Some(parsed) => Ok(parsed),
                None => Err(wrong(&format!("must be {}", setting.kind))),
            };
            let parsed = parsed.unwrap_or_else(|problem| {
                problems.push(problem);
                uncertain.push(setting.name);
                setting.kind.parse(setting.default).expect("a test parses every default")
            });
            values.push(SettingValue { setting, parsed, raw });
        }
        let values = Self(values);
        if problems.is_empty() {
            return Ok(values);
        }
        // A problem names all settings that it depends on.
        let is_certain = |problem: &ConfigProblem| {
            let text = problem.to_string();
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            !words.any(|word| uncertain.contains(&word))
        };
        problems.extend(values.problems(&values.config()).into_iter().filter(is_certain));
        Err(problems)
    }

    /// The values as a TOML file, in which defaults are comments.
    pub fn to_toml(&self) -> String {
        let server = self.config().server;
        let mut toml = String::from("# Settings of capstand. Flags override CAPSTAN_* variables, ");
        toml += "which override this file.\n";
        for SettingValue { setting, raw, .. } in &self.0 {
            let adapted = adapted_default(setting, &server);
            let default = adapted.as_deref().unwrap_or(setting.default);
            let text = raw.as_ref().map_or(default, |raw| raw.text.trim());
            let quote = if setting.kind.is_bare(text) { "" } else { "\"" };
            let comment = if raw.is_none() { "# " } else { "" };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            toml += &format!("\n# {}\n# {}.\n", setting.about, setting.kind);
            toml += &format!("{comment}{} = {quote}{text}{quote}\n", setting.name);
        }
        toml
    }

    pub(super) fn problem(&self, name: &str, text: &str) -> ConfigProblem {
        let SettingValue { setting, raw, .. } = self.get(name);
        problem(setting, raw.as_ref(), text)
    }

    fn get(&self, name: &str) -> &SettingValue {
        let found = self.0.iter().find(|value| value.setting.name == name);
        found.expect("the name is in the table")
    }

    getters! {
        number(Number) -> u64;
        address(Address) -> SocketAddr;
        path(Path) -> PathBuf;
        devices(Devices) -> Vec<u32>;
    }

    /// A number that cannot be `auto`, as an integer type that holds the setting's range.
    pub(super) fn integer<T: TryFrom<u64>>(&self, name: &str) -> T {
        let number = self.number(name).expect("the table declares a number without auto");
        number.try_into().ok().expect("the type holds the table's range")
    }

    /// A number that cannot be `auto`. If it is not given, its default as `adapt` fits it to other
    /// settings.
    pub(super) fn integer_or<T: TryFrom<u64>>(&self, name: &str, adapt: impl FnOnce(T) -> T) -> T {
        let value = self.integer(name);
        if self.get(name).raw.is_some() { value } else { adapt(value) }
    }

    pub(super) fn microseconds(&self, name: &str) -> Duration {
        Duration::from_micros(self.integer(name))
    }

    pub(super) fn milliseconds(&self, name: &str) -> Duration {
        Duration::from_millis(self.integer(name))
    }

    pub(super) fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.integer(name))
    }

    /// `None` for the word `none`.
    pub(super) fn optional_text(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match &self.get(name).parsed {
            ParsedValue::Text(text) => text,
            _ => "",
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).parsed == ParsedValue::Flag(true)
    }
}

/// The default of a setting if other settings have changed it.
fn adapted_default(setting: &Setting, server: &ServerSettings) -> Option<String> {
    let number = match setting.name {
        "connection_jobs_max" => server.connection_jobs_max.into(),
        "message_payload_bytes_max" => server.message_payload_bytes_max,
        "http2_stream_window_bytes" => server.http2_stream_window_bytes.into(),
        "http2_connection_window_bytes" => server.http2_connection_window_bytes.into(),
        _ => return None,
    };
    let is_changed = setting.kind.parse(setting.default) != Some(ParsedValue::Number(number));
    let is_bytes = matches!(setting.kind, SettingKind::Bytes { .. });
    let text = if is_bytes { ByteSize(number).to_string() } else { number.to_string() };
    is_changed.then_some(text)
}

fn problem(setting: &Setting, raw: Option<&RawValue>, text: &str) -> ConfigProblem {
    let given = raw.map_or(setting.default, |raw| raw.text.as_str());
    let source = raw.map_or("default", |raw| raw.source.as_str());
    ConfigProblem::wrong(format!("{} = {given:?} ({source}): {text}", setting.name))
}
