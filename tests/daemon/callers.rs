//! Who calls the daemon: credentials, and the logs that name callers.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

use capstan::{
    client::{Client, ClientError, Fr},
    identity::{BearerToken, TokenEntry, add_token, remove_token},
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use tokio::runtime::Runtime;

use crate::daemon::{
    FinishedDaemon,
    daemon_process::{DaemonProcess, HANGING, capstand},
    open_read_pipe, run, start_without_metrics,
    tls_files::CertifiedFiles,
};

/// How the daemon knows a client that sends `token`.
fn caller(daemon: &DaemonProcess, token: &str) -> Result<String, ClientError> {
    let asked = async {
        let client = Client::builder(daemon.target()).token(token).connect().await?;
        Ok(client.info().await?.caller.expect("daemons name the caller").subject)
    };
    Runtime::new().unwrap().block_on(asked)
}

#[test]
fn a_hangup_signal_makes_it_read_tokens_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let [kept, revoked] = ["kept", "revoked"].map(|name| {
        let token = BearerToken::generate().unwrap();
        let entry =
            TokenEntry { name: name.into(), tenant: None, hash: token.hash(), expires: None };
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, add_token(&text, &entry).unwrap()).unwrap();
        token
    });
    let mut daemon = start_without_metrics(&["--auth-tokens", path.to_str().unwrap()]);
    assert_eq!(caller(&daemon, revoked.text()).unwrap(), "token:revoked");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, remove_token(&text, "revoked").unwrap()).unwrap();
    daemon.signal(Signal::HUP);
    let line = daemon.until("read again");
    assert!(line.contains("auth_tokens"), "{line}");
    assert!(caller(&daemon, revoked.text()).is_err());
    let line = daemon.until("refused a caller");
    assert!(line.contains("WARN") && line.contains("127.0.0.1:"), "{line}");
    // A broken file is an error, and what was read before stays.
    std::fs::write(&path, "[[tokens]]\nname = \"a\"\n").unwrap();
    daemon.signal(Signal::HUP);
    let line = daemon.until("cannot be read again");
    assert!(line.contains("ERROR") && line.contains("sha256"), "{line}");
    assert_eq!(caller(&daemon, kept.text()).unwrap(), "token:kept");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    let log = daemon.log();
    assert!(![kept, revoked].iter().any(|token| log.contains(token.text())), "{log}");
}

#[test]
fn connections_without_a_client_certificate_are_logged() {
    let certified = CertifiedFiles::new("localhost");
    let certificate = certified.files.certificate.to_str().unwrap();
    let key = certified.files.key.to_str().unwrap();
    let tls = ["--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", certificate];
    let mut daemon = start_without_metrics(&tls);
    let target = daemon.target().replace("http://127.0.0.1", "https://localhost");
    let client = Client::builder(target).ca_certificate(certified.certificate_pem.as_str());
    assert!(Runtime::new().unwrap().block_on(client.connect()).is_err());
    let line = daemon.until("refused a caller");
    assert!(line.contains("WARN") && line.contains("remote=127.0.0.1:"), "{line}");
}

#[test]
fn a_hangup_signal_does_not_end_it_and_the_log_names_who_drains() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let socket = socket.to_str().unwrap();
    let flags = ["--unix-socket", socket, "--log-level", "info,capstan=debug"];
    let mut daemon = start_without_metrics(&flags);
    daemon.signal(Signal::HUP);
    daemon.until("nothing to read again");
    let subject = format!("caller=uid:{}", rustix::process::getuid().as_raw());
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(format!("unix:{socket}")).await.unwrap();
        client.drain(Duration::ZERO).await.unwrap();
    });
    let call = daemon.until("op=\"get_info\"");
    assert!(call.contains(&subject) && call.contains("tenant=default"), "{call}");
    let drains = daemon.until("a caller drains the server");
    assert!(drains.contains(&subject), "{drains}");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn a_hangup_signal_does_not_end_a_daemon_that_reads_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("capstand.toml");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstand"));
    command.env_clear().arg("--config").arg(&pipe);
    let mut daemon = DaemonProcess::spawn(command);
    // Opens when the daemon reads it, long before it could read tokens again.
    let mut configuration = open_read_pipe(&pipe);
    daemon.signal(Signal::HUP);
    let settings = "listen = \"127.0.0.1:0\"\nmetrics_listen = \"none\"\nengine = \"cpu\"\n";
    configuration.write_all(settings.as_bytes()).unwrap();
    drop(configuration);
    daemon.until("ready");
}

/// Callers without credentials have one name, so the log tells their addresses, too.
#[test]
fn the_log_names_who_releases() {
    let mut daemon = start_without_metrics(&["--log-level", "info,capstan=debug"]);
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(daemon.target()).await.unwrap();
        let vector = client.put_vector(&[Fr::from(7)][..]).await.unwrap();
        client.release_vector(vector.id).await.unwrap();
    });
    let line = daemon.until("released");
    assert!(line.contains("caller=anonymous") && line.contains("peer=127.0.0.1:"), "{line}");
}

/// A peer must not fill the log with connections that are refused.
#[test]
fn few_refused_connections_are_logged() {
    const REFUSED: usize = 300;
    let mut daemon = start_without_metrics(&["--connections-max", "1"]);
    let runtime = Runtime::new().unwrap();
    let _first = runtime.block_on(async {
        let client = Client::builder(daemon.target()).connections(1).connect().await.unwrap();
        client.info().await.unwrap();
        client
    });
    let begun = Instant::now();
    for _ in 0..REFUSED {
        let mut socket = TcpStream::connect(daemon.address()).unwrap();
        socket.set_read_timeout(Some(HANGING)).unwrap();
        // A reset counts as well.
        let _closed = socket.read_to_end(&mut Vec::new());
    }
    // One line in ten seconds.
    let most = 1 + begun.elapsed().as_secs() as usize / 10;
    daemon.signal(Signal::TERM);
    daemon.wait();
    let log = daemon.log();
    let lines = log.matches("connection refused: too many are open").count();
    assert!((1..=most).contains(&lines), "{lines} lines: {log}");
}

/// As an operator does it, by the command line.
#[cfg(feature = "cli")]
#[test]
fn an_operator_drains_over_the_administrative_socket() {
    let folder = tempfile::tempdir().unwrap();
    let [socket, admin] = ["capstan.sock", "admin.sock"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let flags = ["--unix-socket", &socket, "--admin-socket", &admin];
    let mut daemon = start_without_metrics(&flags);
    let drain = |socket: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.env_clear().args(["--server", &format!("unix:{socket}"), "drain"]);
        command.output().unwrap()
    };
    let refused = drain(&socket);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && stderr.contains("administrative socket"), "{stderr}");
    let drained = drain(&admin);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    daemon.until("a caller drains the server");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn listening_beyond_the_loopback_needs_credentials() {
    let FinishedDaemon { code, stderr, .. } = run(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(78), "{stderr}");
    for setting in ["listen", "auth_tokens", "auth_jwks", "tls_client_ca", "insecure"] {
        assert!(stderr.contains(setting), "{setting}: {stderr}");
    }
    let insecure = ["--listen", "0.0.0.0:0", "--metrics-listen", "none", "--insecure"];
    let mut daemon = DaemonProcess::spawn(capstand(&insecure));
    daemon.until("insecure is on");
    daemon.until("ready");
}
