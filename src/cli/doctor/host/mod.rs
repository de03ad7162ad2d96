//! Checks of the host on which a daemon runs or will run, with the configuration that the daemon
//! reads.

mod certificates;
mod daemon_files;
mod data_dir;
mod gpus;
mod limits;
mod ports;
mod sandbox;
mod sockets;

use std::path::PathBuf;

use clap::Args;

use self::daemon_files::DaemonConfig;
use super::finding::DoctorFinding;
use crate::config::ConfigProblem;

const CONFIGURATION: &str = "configuration";

#[derive(Debug, Args)]
pub struct HostArgs {
    /// Configuration file of this host's daemon [default: the one that capstand reads]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn check(args: &HostArgs) -> Vec<DoctorFinding> {
    let read = match DaemonConfig::read(args.config.as_deref()) {
        Ok(read) => read,
        Err(problems) => return problems.iter().map(unreadable).collect(),
    };
    let mut findings = configuration(&read);
    let config = &read.config;
    let sockets = sockets::check(&config.server).await;
    let daemon = sockets.daemon.as_ref();
    findings.extend(sockets.findings);
    findings.extend(ports::check(config, daemon).await);
    findings.extend(daemon_files::check(&read, daemon));
    findings.extend(data_dir::check(&config.server, daemon));
    findings.extend(certificates::check(&config.server));
    findings.extend(limits::check(config, daemon));
    findings.extend(gpus::check(config).await);
    findings.extend(sandbox::check(config));
    findings
}

fn unreadable(problem: &ConfigProblem) -> DoctorFinding {
    let fix = "correct it: checks of limits, network, files and GPUs need the configuration";
    DoctorFinding::problem(CONFIGURATION, problem.to_string(), fix)
}

fn configuration(read: &DaemonConfig) -> Vec<DoctorFinding> {
    let fix = "correct the setting; run this as root if only the daemon may read the file";
    let refused =
        |problem: &ConfigProblem| DoctorFinding::problem(CONFIGURATION, problem.to_string(), fix);
    if !read.problems.is_empty() {
        return read.problems.iter().map(refused).collect();
    }
    let found = match &read.file {
        Some(path) => format!("{} and the environment are valid", path.display()),
        None => "there is no file; defaults and the environment are valid".to_owned(),
    };
    vec![DoctorFinding::ok(CONFIGURATION, found)]
}
