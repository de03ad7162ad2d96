//! The daemon's command line, generated from the table.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

use super::source::FILE_DEFAULT;
use crate::settings::{Setting, SettingKind, TABLE};

const AFTER: &str = "\
Every setting can be given in the file (jobs_max = 256), in the environment (CAPSTAN_JOBS_MAX=256) \
or on the command line (--jobs-max 256). Later sources override earlier ones: file, environment, \
flags. Variables that Kubernetes sets for a service named capstan are ignored.

Exit codes: 0 drained, 64 invalid usage, 69 an address cannot be bound, no GPU can be used, or \
another daemon uses data_dir or its disk fails, 70 internal error or lost GPU, 78 invalid \
configuration, or data_dir cannot be a directory that the daemon may change, 130 stopped by a \
second signal.";

/// The daemon's command line.
pub fn command() -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("PATH")
        .env("CAPSTAN_CONFIG")
        .value_parser(value_parser!(PathBuf))
        .help(format!("TOML file to read [default: {FILE_DEFAULT}; none if that file is absent]"));
    let action = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let check = action("check-config")
        .help("Check the configuration, print every problem and exit with 0, 69 or 78");
    let print =
        action("print-config").help("Print the configuration as a commented TOML file and exit");
    Command::new("capstand")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serve MSM and NTT over BLS12-381 via gRPC")
        .after_help(AFTER)
        .args([config, check, print])
        .next_help_heading("Settings")
        .args(TABLE.iter().map(argument))
}

fn argument(setting: &Setting) -> Arg {
    let about = setting.about.trim_end_matches('.');
    let argument = Arg::new(setting.name)
        .long(setting.flag())
        .value_name(setting.kind.placeholder())
        .allow_hyphen_values(true)
        .help(format!("{about} ({}) [default: {}]", setting.kind, setting.default));
    match setting.kind {
        // `--reflection` alone means true.
        SettingKind::Flag => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_flag_and_help() {
        let mut command = command();
        command.clone().debug_assert();
        let help = command.render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in TABLE {
            assert!(help.contains(&format!("--{}", setting.flag())), "{}", setting.name);
            assert!(help.contains(&format!("[default: {}]", setting.default)), "{}", setting.name);
        }
    }
}
