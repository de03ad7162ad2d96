//! The configuration, read as the daemon reads it, and the files that it names: which are secret,
//! and which decide who may call.

use std::{
    env,
    path::{Path, PathBuf},
};

use super::sockets::DaemonProcess;
use crate::{
    config::{Config, ConfigProblem, SettingValues, command, config_file, is_absent},
    doctor::{
        files::{CheckedFile, Secrecy},
        finding::DoctorFinding,
    },
};

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

pub fn check(read: &DaemonConfig, daemon: Option<&DaemonProcess>) -> Vec<DoctorFinding> {
    let daemon_user = daemon.map(|daemon| daemon.user);
    files(read).iter().map(|file| file.check(daemon_user)).collect()
}

fn files(read: &DaemonConfig) -> Vec<CheckedFile<'_>> {
    let (server, cuda) = (&read.config.server, &read.config.cuda);
    let (auth, tls) = (&server.auth, server.tls.as_ref());
    // The daemon makes the audit log.
    let audit_log = read.config.audit_log.as_deref().filter(|path| !is_absent(path));
    let files = [
        public("--config", read.file.as_deref()),
        public("tls_certificate", tls.map(|tls| tls.certificate.as_path())),
        secret("tls_key", tls.map(|tls| tls.key.as_path())),
        public("tls_client_ca", tls.and_then(|tls| tls.client_ca.as_deref())),
        public("auth_tokens", auth.tokens.as_deref()),
        public("auth_jwks", auth.jwt.as_ref().map(|jwt| jwt.key_set.as_path())),
        public("tenants", server.tenants.as_deref()),
        public("preload", server.preload.as_deref()),
        public("cuda_driver", cuda.driver.as_deref()),
        secret("audit_log", audit_log),
    ];
    files.into_iter().flatten().collect()
}

fn public<'a>(name: &'a str, path: Option<&'a Path>) -> Option<CheckedFile<'a>> {
    Some(CheckedFile { name, path: path?, secrecy: Secrecy::Public })
}

fn secret<'a>(name: &'a str, path: Option<&'a Path>) -> Option<CheckedFile<'a>> {
    Some(CheckedFile { name, path: path?, secrecy: Secrecy::Secret })
}
