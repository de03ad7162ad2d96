//! The files that the daemon reads: which are secret, and which decide who may call.

use std::path::Path;

use super::{daemon_config::DaemonConfig, sockets::DaemonProcess};
use crate::{
    config::is_absent,
    doctor::{
        files::{CheckedFile, Secrecy},
        finding::DoctorFinding,
    },
};

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
