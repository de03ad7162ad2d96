//! The listener for metrics and probes: TLS, and peers that stall.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::daemon::{
    audit::wait_until,
    daemon_process::{DaemonProcess, HANGING},
    http, start,
    tls_files::CertifiedFiles,
    with_one_thread,
};

/// Connections that send nothing, or a part of a request.
fn stall(address: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let connect = |index| {
        let mut socket = TcpStream::connect(address).unwrap();
        if index % 2 == 0 {
            socket.write_all(b"GET /healthz HT").unwrap();
        }
        socket
    };
    (0..connections).map(connect).collect()
}

/// If stalled peers could keep others out until they time out, a probe would wait for minutes.
#[test]
fn a_probe_is_answered_while_1000_connections_stall() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let daemon = start(&["--engine", "cpu"]);
    let address = daemon.metrics_address();
    let stalled = stall(address, 1000);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = http(address, &format!("GET {path}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    drop((stalled, daemon));
}

/// The client's side of TLS.
fn tls_client(roots: RootCertStore) -> ClientConnection {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

/// Connections that send the first message of a TLS handshake and read no answer.
fn begin_handshakes(address: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let begin = |_| {
        let mut socket = TcpStream::connect(address).unwrap();
        // The server may have closed it already, for a newer connection.
        let _sent = tls_client(RootCertStore::empty()).write_tls(&mut socket);
        socket
    };
    (0..connections).map(begin).collect()
}

/// The answer by HTTPS; an error if the server's certificate is not `trusted`.
fn https(address: SocketAddr, path: &str, trusted: &str) -> std::io::Result<String> {
    https_with(address, path, "", trusted)
}

/// Like [`https`], with lines of headers.
pub fn https_with(
    address: SocketAddr,
    path: &str,
    headers: &str,
    trusted: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(HANGING))?;
    let mut stream = StreamOwned::new(tls_client(roots), socket);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn metrics_are_served_by_https_with_a_certificate_that_is_read_again() {
    let (first, second) = (CertifiedFiles::new("localhost"), CertifiedFiles::new("localhost"));
    let (certificate, key) = (&first.files.certificate, &first.files.key);
    let tls = ["--tls-certificate", certificate.to_str().unwrap()];
    let tls = [&tls[..], &["--tls-key", key.to_str().unwrap(), "--metrics-tls"]].concat();
    let mut daemon = start(&[&["--engine", "cpu"][..], &tls].concat());
    let address = daemon.metrics_address();
    // They neither complete a handshake nor keep others out.
    let stalled = [stall(address, 100), begin_handshakes(address, 200), stall(address, 20)];
    let answer = |path| https(address, path, &first.certificate_pem).unwrap();
    assert!(answer("/healthz").ends_with("alive"));
    assert!(answer("/metrics").contains("capstan_build_info{"));
    assert!(https(address, "/healthz", &second.certificate_pem).is_err(), "trusts a stranger");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut plain = Vec::new();
    // A reset counts as well.
    let _ended = socket.read_to_end(&mut plain);
    assert!(!String::from_utf8_lossy(&plain).contains("alive"), "serves plain HTTP");
    fs::copy(&second.files.key, key).unwrap();
    fs::copy(&second.files.certificate, certificate).unwrap();
    daemon.signal(Signal::HUP);
    daemon.until("read again");
    let is_new = || https(address, "/healthz", &second.certificate_pem).is_ok();
    wait_until("the new certificate is not served", is_new);
    drop(stalled);
}

#[test]
fn certificates_that_expire_are_logged_and_exported() {
    let now = UNIX_EPOCH.elapsed().unwrap();
    let week = Duration::from_secs(7 * 86_400);
    let (expired, expiring) =
        (CertifiedFiles::expiring(week), CertifiedFiles::expiring(now + week));
    let (certificate, key) = (&expired.files.certificate, &expired.files.key);
    let [certificate_flag, key_flag] = [certificate, key].map(|path| path.to_str().unwrap());
    let tls = ["--tls-certificate", certificate_flag, "--tls-key", key_flag];
    let flags = [&["--engine", "cpu"][..], &tls, &["--tls-client-ca", certificate_flag]].concat();
    let mut daemon = DaemonProcess::listening(with_one_thread(&flags));
    for setting in ["tls_certificate", "tls_client_ca"] {
        let line = daemon.until("a certificate has expired");
        assert!(line.contains("ERROR") && line.contains(setting), "{line}");
    }
    let address = daemon.metrics_address();
    let is_exported = |expiry: Duration| {
        let text = http(address, "GET /metrics");
        ["tls_certificate", "tls_client_ca"].iter().all(|setting| {
            let labels = format!("{{setting=\"{setting}\"}}");
            let name = "capstan_certificate_expiry_timestamp_seconds";
            text.contains(&format!("{name}{labels} {}\n", expiry.as_secs()))
        })
    };
    wait_until("the expiry is not exported", || is_exported(week));
    fs::copy(&expiring.files.key, key).unwrap();
    fs::copy(&expiring.files.certificate, certificate).unwrap();
    daemon.signal(Signal::HUP);
    let line = daemon.until("a certificate expires soon");
    assert!(line.contains("WARN") && line.contains("days=6"), "{line}");
    wait_until("the new expiry is not exported", || is_exported(now + week));
}

#[test]
fn tenants_are_named_in_metrics_only_if_the_operator_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenants.toml");
    fs::write(&path, "[tenants.ada]\nweight = 2\n").unwrap();
    let tenants = ["--engine", "cpu", "--tenants", path.to_str().unwrap()];
    let names_ada = |daemon: &DaemonProcess| {
        let text = http(daemon.metrics_address(), "GET /metrics");
        text.contains("capstan_tenant_jobs{tenant=\"ada\"} 0\n")
    };
    let named = start(&[&tenants[..], &["--metrics-tenants"]].concat());
    wait_until("the tenant is not named", || names_ada(&named));
    let unnamed = start(&tenants);
    let has_connections = || {
        let text = http(unnamed.metrics_address(), "GET /metrics");
        text.contains("capstan_connections ")
    };
    // Set at the same time as the gauges of tenants.
    wait_until("no gauges are set", has_connections);
    assert!(!http(unnamed.metrics_address(), "GET /metrics").contains("\"ada\""));
}
