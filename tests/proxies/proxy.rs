//! A proxy with its configuration of `deploy/`.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::proxies::{
    daemon_process::HANGING,
    site::{DaemonPorts, Site},
    stable_port::stable_port,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyKind {
    Envoy,
    HaProxy,
}

impl ProxyKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::HaProxy => "haproxy",
        }
    }

    /// The caller as daemons see it.
    pub fn caller(self) -> &'static str {
        match self {
            Self::Envoy => "proxied:spiffe://example.org/ada",
            Self::HaProxy => "proxied:ada",
        }
    }

    /// The program; `None` if it is not installed. In CI, it must be.
    pub fn program(self) -> Option<PathBuf> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/proxies");
        let folder = std::env::var_os("CAPSTAN_PROXIES").map_or(own, PathBuf::from);
        let program = folder.join(self.name());
        if program.exists() {
            return Some(program);
        }
        let problem = format!("no {}: run scripts/install-proxies", program.display());
        assert!(std::env::var_os("CI").is_none(), "{problem}");
        eprintln!("skipped, {problem}");
        None
    }

    /// The configuration of `deploy/` for these daemons and files.
    fn configuration(self, site: &Site, port: u16) -> String {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
        let file = match self {
            Self::Envoy => "envoy.yaml",
            Self::HaProxy => "haproxy.cfg",
        };
        let mut text = fs::read_to_string(deploy.join(file)).unwrap();
        let mut replace = |from: &str, to: &str| {
            assert!(text.contains(from), "{file} has no {from:?}");
            text = text.replace(from, to);
        };
        let folder = format!("{}/", site.folder.path().display());
        match self {
            Self::Envoy => {
                replace("/etc/envoy/", &folder);
                replace("0.0.0.0, port_value: 7654", &format!("127.0.0.1, port_value: {port}"));
                replace("port_value: 9901", "port_value: 0");
            }
            Self::HaProxy => {
                replace("/etc/haproxy/server.pem", &format!("{folder}server-both.pem"));
                replace("/etc/haproxy/proxy.pem", &format!("{folder}proxy-both.pem"));
                replace("/etc/haproxy/", &folder);
                replace("0.0.0.0:7654 ssl", &format!("127.0.0.1:{port} ssl"));
            }
        }
        for (number, DaemonPorts { grpc, metrics }) in site.ports.iter().enumerate() {
            match self {
                Self::Envoy => replace(
                    &format!("address: capstan-{number}, port_value: 7654"),
                    &format!("address: 127.0.0.1, port_value: {grpc}"),
                ),
                Self::HaProxy => replace(
                    &format!("capstan-{number}:7654 check port 9464"),
                    &format!("127.0.0.1:{grpc} check port {metrics}"),
                ),
            }
        }
        text
    }
}

/// A running proxy, killed on drop.
pub struct ProxyProcess {
    child: Child,
    port: u16,
}

impl ProxyProcess {
    /// Starts a proxy and waits until it accepts connections.
    pub fn start(kind: ProxyKind, program: &Path, site: &Site) -> Self {
        let port = stable_port();
        let (file, log) = (site.path("proxy.conf"), site.path("proxy.log"));
        fs::write(&file, kind.configuration(site, port)).unwrap();
        let mut command = Command::new(program);
        match kind {
            ProxyKind::Envoy => {
                let flags =
                    ["--log-level", "warning", "--concurrency", "1", "--disable-hot-restart"];
                command.args(flags).arg("--config-path").arg(site.path("proxy.yaml"));
                fs::rename(&file, site.path("proxy.yaml")).unwrap();
            }
            ProxyKind::HaProxy => {
                command.args(["-db", "-f"]).arg(&file);
            }
        }
        let log_file = fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(log_file.try_clone().unwrap()).stderr(log_file);
        let mut child = command.spawn().expect("the proxy is installed");
        let (address, begun) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now());
        while TcpStream::connect(address).is_err() {
            let has_ended = child.try_wait().unwrap().is_some();
            let text = || fs::read_to_string(&log).unwrap_or_default();
            assert!(!has_ended && begun.elapsed() < HANGING, "no proxy:\n{}", text());
            thread::sleep(Duration::from_millis(20));
        }
        Self { child, port }
    }

    pub fn target(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
