//! The configuration, read as the daemon reads it.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::config::{Config, ConfigProblem, SettingValues, command, config_file};

pub struct DaemonConfig {
    /// The file that was read.
    pub file: Option<PathBuf>,
    pub config: Config,
    /// What `capstand --check-config` would refuse.
    pub problems: Vec<ConfigProblem>,
}

impl DaemonConfig {
    /// Reads `file`, or the daemon's default, and the environment.
    ///
    /// Errors: settings that cannot be parsed.
    pub fn read(file: Option<&Path>) -> Result<Self, Vec<ConfigProblem>> {
        let mut line = vec!["capstand".into()];
        if let Some(file) = file {
            line.extend(["--config".into(), file.as_os_str().to_owned()]);
        }
        let flags = command().get_matches_from(line);
        let values = SettingValues::read(&flags, env::vars_os())?;
        let config = values.config();
        let problems = values.problems(&config);
        Ok(Self { file: config_file(&flags), config, problems })
    }
}
