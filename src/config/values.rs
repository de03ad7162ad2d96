//! The value of every setting, read from its sources.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;

use super::{
    kind::{ParsedValue, resolve},
    source::{ConfigProblem, RawValue, read_sources},
    table::{Setting, TABLE},
};

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
    /// Errors: every problem, not only the first.
    pub fn read(
        flags: &ArgMatches,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        let given = read_sources(env, flags)?;
        let (mut problems, mut values) = (Vec::new(), Vec::new());
        for (setting, raw) in TABLE.iter().zip(given) {
            let text = raw.as_ref().map_or(setting.default, |raw| raw.text.as_str());
            match setting.kind.parse(text) {
                Some(ParsedValue::Host(host)) => match resolve(&host) {
                    Ok(address) => {
                        let parsed = ParsedValue::Address(address);
                        values.push(SettingValue { setting, parsed, raw });
                    }
                    Err(error) => {
                        let problem = problem(setting, raw.as_ref(), &error.to_string());
                        problems.push(problem.unresolved());
                    }
                },
                Some(parsed) => values.push(SettingValue { setting, parsed, raw }),
                None => {
                    let expected = format!("must be {}", setting.kind);
                    problems.push(problem(setting, raw.as_ref(), &expected));
                }
            }
        }
        if problems.is_empty() { Ok(Self(values)) } else { Err(problems) }
    }

    /// The values as a TOML file, in which defaults are comments.
    pub fn to_toml(&self) -> String {
        let mut toml = String::from("# Settings of capstand. Flags override CAPSTAN_* variables, ");
        toml += "which override this file.\n";
        for SettingValue { setting, raw, .. } in &self.0 {
            let text = raw.as_ref().map_or(setting.default, |raw| raw.text.trim());
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

fn problem(setting: &Setting, raw: Option<&RawValue>, text: &str) -> ConfigProblem {
    let given = raw.map_or(setting.default, |raw| raw.text.as_str());
    let source = raw.map_or("default", |raw| raw.source.as_str());
    ConfigProblem::wrong(format!("{} = {given:?} ({source}): {text}", setting.name))
}
