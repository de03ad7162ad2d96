//! `capstan doctor`, with a daemon and without.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{
    CommandOutput, command, daemon_process::DaemonProcess, stable_port::stable_port,
    tls_files::CertifiedFiles,
};

/// Nothing listens there.
const UNREACHABLE: &str = "http://127.0.0.1:1";

/// A folder with a configuration file, whose daemon is asked by `doctor`.
struct Host {
    folder: TempDir,
}

impl Host {
    fn new(settings: &str) -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(host.path("capstand.toml"), format!("engine = \"cpu\"\n{settings}")).unwrap();
        host
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `doctor` without the variables of this process.
    fn doctor(&self, server: &str, flags: &[&str]) -> CommandOutput {
        let config = self.path("capstand.toml");
        let line = [&["doctor", "--config", &config], flags].concat();
        let output = command(server, &line).env_clear().env("CAPSTAN_SERVER", server).output();
        let output = output.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{line:?}: {err}");
        CommandOutput { code: output.status.code().unwrap(), out: output.stdout, err }
    }

    fn report(&self, server: &str, flags: &[&str]) -> DoctorReport {
        let done = self.doctor(server, &[flags, &["--json"]].concat());
        let report: Value = serde_json::from_slice(&done.out).unwrap();
        let has_problem = report["problems"].as_u64() > Some(0);
        assert_eq!(done.code, i32::from(has_problem), "{report}");
        assert_eq!(done.err, "");
        DoctorReport(report)
    }
}

struct DoctorReport(Value);

impl DoctorReport {
    /// The severities of a check's findings.
    fn severities(&self, check: &str) -> Vec<&str> {
        let findings = self.0["findings"].as_array().unwrap();
        let found = findings.iter().filter(|finding| finding["check"] == check);
        found.map(|finding| finding["severity"].as_str().unwrap()).collect()
    }

    /// Whether a finding with this severity contains the text; only those that are not fine have a
    /// fix.
    fn has(&self, severity: &str, text: &str) -> bool {
        let findings = self.0["findings"].as_array().unwrap();
        findings.iter().any(|finding| {
            assert_eq!(finding["fix"].is_null(), finding["severity"] == "ok", "{finding}");
            finding["severity"] == severity && finding["found"].as_str().unwrap().contains(text)
        })
    }
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_running_daemon_is_found_by_its_sockets_and_ports() {
    let (port, metrics_port) = (stable_port(), stable_port());
    let host = Host::new("");
    for name in ["data", "run"] {
        fs::create_dir(host.path(name)).unwrap();
        set_mode(host.path(name), 0o750);
    }
    let (socket, data) = (host.path("run/capstan.sock"), host.path("data"));
    let settings = format!(
        "engine = \"cpu\"\nlisten = \"127.0.0.1:{port}\"\nmetrics_listen = \
         \"127.0.0.1:{metrics_port}\"\nunix_socket = \"{socket}\"\ndata_dir = \"{data}\"\n"
    );
    fs::write(host.path("capstand.toml"), settings).unwrap();
    let stopped = host.report(UNREACHABLE, &["--no-server"]);
    assert!(stopped.has("ok", &format!("listen 127.0.0.1:{port} is free")), "{}", stopped.0);

    let mut capstand = Command::new(env!("CARGO_BIN_EXE_capstand"));
    capstand.env_clear().args(["--config", &host.path("capstand.toml")]);
    let daemon = DaemonProcess::start(capstand);
    let report = host.report(&daemon.target(), &[]);
    for check in ["server", "version", "server_load", "configuration", "network", "sockets"] {
        let severities = report.severities(check);
        assert!(!severities.is_empty(), "{check}: {}", report.0);
        assert!(severities.iter().all(|severity| *severity == "ok"), "{check}: {}", report.0);
    }
    assert_eq!(report.severities("network").len(), 2);
    assert!(report.has("ok", &format!("{socket} is served by process {}", daemon.id())));
    assert!(report.has("ok", &format!("listen 127.0.0.1:{port} is served by a daemon")));
    assert!(report.has("ok", &format!("127.0.0.1:{metrics_port} is served by a daemon")));
    assert!(["open_files", "memory", "swap"].iter().all(|check| {
        report.0["findings"].as_array().unwrap().iter().any(|finding| {
            let found = finding["found"].as_str().unwrap();
            finding["check"] == *check && found.contains(&format!("process {}", daemon.id()))
        })
    }));

    set_mode(&data, 0o757);
    let report = host.report(&daemon.target(), &[]);
    assert!(report.has("problem", &format!("every user can write to {data}")), "{}", report.0);
    daemon.stop();
}

#[test]
fn a_server_that_does_not_answer_is_a_problem() {
    let host = Host::new("listen = \"127.0.0.1:0\"\nmetrics_listen = \"none\"\n");
    let report = host.report(UNREACHABLE, &[]);
    assert_eq!(report.severities("server"), ["problem"]);
    assert!(report.has("problem", &format!("{UNREACHABLE} does not serve this client")));
    assert_eq!(host.report(UNREACHABLE, &["--no-server"]).severities("server"), [""; 0]);
    let text = host.doctor(UNREACHABLE, &[]);
    assert_eq!(text.code, 1);
    let text = text.text();
    assert!(text.contains("problem  server: ") && text.contains("         fix: cannot reach"));
    assert!(text.contains(" checks: ") && text.contains(" warning"), "{text}");
}

#[test]
fn a_port_of_another_program_and_open_files_are_reported() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let certified = CertifiedFiles::new("localhost");
    let host = Host::new("");
    let config = host.path("capstand.toml");
    let settings = format!(
        "engine = \"cpu\"\nlisten = \"127.0.0.1:0\"\nmetrics_listen = \"{address}\"\n\
         metrics_tls = true\ntls_certificate = \"{}\"\ntls_key = \"{}\"\n",
        certified.files.certificate.display(),
        certified.files.key.display(),
    );
    fs::write(&config, settings).unwrap();
    set_mode(&certified.files.key, 0o644);
    set_mode(&config, 0o666);
    let report = host.report(UNREACHABLE, &["--no-server"]);
    assert!(report.has("warning", &format!("metrics_listen {address} is in use")), "{}", report.0);
    let key = certified.files.key.display();
    assert!(report.has("problem", &format!("tls_key {key}: every user can read")), "{}", report.0);
    assert!(report.has("problem", &format!("--config {config}: every user can change it")));
    assert!(report.has("ok", "tls_certificate") && report.has("ok", "expires in"));
    set_mode(&certified.files.key, 0o600);
    let token = ["--no-server", "--token-file", &config];
    assert!(host.report(UNREACHABLE, &token).has("problem", &format!("--token-file {config}")));
    assert!(!host.report(UNREACHABLE, &["--no-server"]).has("problem", "tls_key"));
}

#[test]
fn problems_of_the_configuration_are_listed() {
    let host = Host::new("jobs_max = 0\nlisten = \"127.0.0.1:0\"\n");
    let report = host.report(UNREACHABLE, &["--no-server"]);
    assert_eq!(report.severities("configuration"), ["problem"]);
    assert!(report.has("problem", "jobs_max"), "{}", report.0);
    let host = Host::new("listen = \"none\"\n");
    let report = host.report(UNREACHABLE, &["--no-server"]);
    assert!(report.has("problem", "must be an address if unix_socket is none"), "{}", report.0);
    // The other checks still run.
    assert_eq!(report.severities("open_files").len(), 1);
}
