//! Whether the TCP addresses are free, or served by a daemon.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::timeout};

use super::sockets::DaemonProcess;
use crate::{client::Client, config::Config, doctor::finding::DoctorFinding};

/// Time for an answer of this host.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// What the listener for metrics answers at most.
const ANSWER_BYTES: u64 = 4096;

enum PortState {
    Free,
    /// A daemon answers.
    Served,
    /// A program listens, and what it speaks is not plain gRPC or HTTP of a daemon.
    InUse,
    Failed(io::Error),
}

struct PortFacts {
    setting: &'static str,
    address: SocketAddr,
    has_tls: bool,
    /// Whether a daemon serves a Unix socket of the configuration.
    is_daemon_running: bool,
    state: PortState,
}

pub async fn check(config: &Config, daemon: Option<&DaemonProcess>) -> Vec<DoctorFinding> {
    let is_daemon_running = daemon.is_some();
    let mut findings = Vec::new();
    if let Some(address) = config.server.listen {
        let has_tls = config.server.tls.is_some();
        let mut state = bind(address);
        if matches!(state, PortState::InUse) && !has_tls && serves_grpc(reachable(address)).await {
            state = PortState::Served;
        }
        let setting = "listen";
        findings.push(finding(&PortFacts { setting, address, has_tls, is_daemon_running, state }));
    }
    if let Some(address) = config.metrics_listen {
        let has_tls = config.metrics_tls;
        let mut state = bind(address);
        if matches!(state, PortState::InUse) && !has_tls {
            let ask = spawn_blocking(move || is_alive(reachable(address)).unwrap_or(false));
            // Another program could send a byte now and then.
            if let Ok(Ok(true)) = timeout(2 * ANSWER_TIMEOUT, ask).await {
                state = PortState::Served;
            }
        }
        let setting = "metrics_listen";
        findings.push(finding(&PortFacts { setting, address, has_tls, is_daemon_running, state }));
    }
    findings
}

/// Listens for a moment, as a daemon would.
fn bind(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => PortState::InUse,
        Err(error) => PortState::Failed(error),
    }
}

/// An address at which this host reaches a listener.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

/// Whether a daemon answers, also if it refuses a caller without credentials.
async fn serves_grpc(address: SocketAddr) -> bool {
    let client = Client::builder(format!("http://{address}")).connections(1).retries(0);
    let client = client.shared_memory(false).connect_timeout(ANSWER_TIMEOUT);
    let ask = async {
        let client = client.deadline(ANSWER_TIMEOUT).connect().await?;
        client.info().await.map(drop)
    };
    ask.await.map_or_else(|error| error.reason().is_some(), |()| true)
}

/// Whether a daemon's listener for probes answers.
fn is_alive(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"alive"))
}

fn finding(facts: &PortFacts) -> DoctorFinding {
    const CHECK: &str = "network";
    let PortFacts { setting, address, has_tls, is_daemon_running, state } = facts;
    let about = |text: &str| format!("{setting} {address} {text}");
    match state {
        PortState::Free => DoctorFinding::ok(CHECK, about("is free: no daemon serves it")),
        PortState::Served => DoctorFinding::ok(CHECK, about("is served by a daemon")),
        PortState::InUse if *has_tls && *is_daemon_running => {
            DoctorFinding::ok(CHECK, about("is in use, and a daemon runs"))
        }
        PortState::InUse => DoctorFinding::warning(
            CHECK,
            about("is in use, and no daemon answers there without TLS"),
            format!(
                "`ss -ltnp 'sport = :{}'` shows the program: if it is not capstand, use another \
                 port",
                address.port()
            ),
        ),
        PortState::Failed(error) => {
            let fix = match error.kind() {
                io::ErrorKind::AddrNotAvailable => {
                    "use an address of this host (`ip address` lists them), or 0.0.0.0 for all"
                }
                io::ErrorKind::PermissionDenied => "use a port above 1023",
                _ => "use another address or port",
            };
            DoctorFinding::problem(CHECK, about(&format!("cannot be bound: {error}")), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn severity(state: PortState, has_tls: bool, is_daemon_running: bool) -> Severity {
        let address = SocketAddr::from(([127, 0, 0, 1], 7654));
        let setting = "listen";
        finding(&PortFacts { setting, address, has_tls, is_daemon_running, state }).severity
    }

    #[test]
    fn a_port_that_another_program_uses_is_reported() {
        assert_eq!(severity(PortState::Free, false, false), Severity::Ok);
        assert_eq!(severity(PortState::Served, false, false), Severity::Ok);
        assert_eq!(severity(PortState::InUse, false, true), Severity::Warning);
        assert_eq!(severity(PortState::InUse, true, false), Severity::Warning);
        assert_eq!(severity(PortState::InUse, true, true), Severity::Ok);
        let failed = PortState::Failed(io::ErrorKind::AddrNotAvailable.into());
        assert_eq!(severity(failed, false, false), Severity::Problem);
    }

    #[test]
    fn a_listener_is_found_without_a_daemon() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(matches!(bind(address), PortState::InUse));
        // An address of TEST-NET-1 (RFC 5737), which no host has.
        assert!(matches!(bind(([192, 0, 2, 1], 7654).into()), PortState::Failed(_)));
    }

    #[test]
    fn a_wildcard_is_reached_by_the_loopback() {
        let of = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(of("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(of("[::]:1"), "[::1]:1");
        assert_eq!(of("10.0.0.1:1"), "10.0.0.1:1");
    }
}
