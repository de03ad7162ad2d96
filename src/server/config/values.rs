//! The value of every setting, read from its sources.

use std::ffi::OsString;

use clap::ArgMatches;

use super::{
    memory,
    source::{ConfigProblem, RawValue, SourceContent, read_sources},
};
use crate::{
    buffer::ByteSize,
    settings::{ParsedValue, ParsedValues, Setting, SettingKind, TABLE, position, resolve},
};

/// The value of every setting, each of its kind and in its range.
#[derive(Debug, Clone)]
pub struct SettingValues {
    pub(super) parsed: ParsedValues,
    /// The given values, in the order of the table; `None` for the default.
    raw: Vec<Option<RawValue>>,
}

impl SettingValues {
    /// Reads every value and checks it by itself.
    ///
    /// Errors: every problem, not only the first. Those of [`Self::check`] are among them, apart
    /// from those that depend on a value that cannot be read.
    pub fn read(
        flags: &ArgMatches,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let SourceContent { given: raw, mut problems, mut uncertain } = read_sources(env, flags);
        let mut values = Vec::new();
        for (setting, raw) in TABLE.iter().zip(&raw) {
            let text = raw.as_ref().map_or(setting.default, |raw| raw.text.as_str());
            let wrong = |text: &str| problem(setting, raw.as_ref(), text);
            let parsed = match setting.kind.parse(text) {
                Some(ParsedValue::Host(host)) => resolve(&host)
                    .map(ParsedValue::Address)
                    .map_err(|error| wrong(&error.to_string()).unresolved()),
                Some(parsed) => Ok(parsed),
                None => Err(wrong(&format!("must be {}", setting.kind))),
            };
            values.push(parsed.unwrap_or_else(|problem| {
                problems.push(problem);
                uncertain.push(setting.name);
                setting.parsed_default()
            }));
        }
        let given: Vec<bool> = raw.iter().map(Option::is_some).collect();
        let parsed = ParsedValues::new(values, &given, memory::available_bytes());
        let values = Self { parsed, raw };
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
        let mut toml = String::from("# Settings of capstand. Flags override CAPSTAN_* variables, ");
        toml += "which override this file.\n";
        for (setting, raw) in TABLE.iter().zip(&self.raw) {
            let text = match raw {
                Some(raw) => raw.text.trim().to_owned(),
                None => self.default_text(setting),
            };
            let quote = if setting.kind.is_bare(&text) { "" } else { "\"" };
            let comment = if raw.is_none() { "# " } else { "" };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            toml += &format!("\n# {}\n# {}.\n", setting.about, setting.kind);
            toml += &format!("{comment}{} = {quote}{text}{quote}\n", setting.name);
        }
        toml
    }

    /// The default of a setting that is not given, as other settings have changed it.
    fn default_text(&self, setting: &Setting) -> String {
        let number = self.parsed.number(setting.name);
        match (setting.parsed_default(), setting.kind) {
            (ParsedValue::Number(default), _) if default == number => setting.default.to_owned(),
            (ParsedValue::Number(_), SettingKind::Bytes { .. }) => ByteSize(number).to_string(),
            (ParsedValue::Number(_), _) => number.to_string(),
            _ => setting.default.to_owned(),
        }
    }

    pub(super) fn problem(&self, name: &str, text: &str) -> ConfigProblem {
        let place = position(name);
        problem(&TABLE[place], self.raw[place].as_ref(), text)
    }
}

fn problem(setting: &Setting, raw: Option<&RawValue>, text: &str) -> ConfigProblem {
    let given = raw.map_or(setting.default, |raw| raw.text.as_str());
    let source = raw.map_or("default", |raw| raw.source.as_str());
    ConfigProblem::wrong(format!("{} = {given:?} ({source}): {text}", setting.name))
}
