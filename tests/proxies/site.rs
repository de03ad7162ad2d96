//! Three daemons with certificates, and their clients.

use std::path::PathBuf;

use capstan::client::{Client, ClientBuilder};
use rcgen::SanType;
use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::proxies::{
    authority::{Authority, Certified},
    daemon_process::{DaemonProcess, capstand},
    stable_port::stable_port,
};

pub const DAEMONS: usize = 3;
/// What the configurations of `deploy/` require of the daemons' certificates.
pub const DAEMON_NAME: &str = "capstan.example.org";
pub const CALLER: &str = "spiffe://example.org/ada";

/// The ports of one daemon.
#[derive(Clone, Copy)]
pub struct DaemonPorts {
    pub grpc: u16,
    pub metrics: u16,
}

pub struct Site {
    pub folder: TempDir,
    pub ports: [DaemonPorts; DAEMONS],
    daemons: [Option<DaemonProcess>; DAEMONS],
    proxy_name: String,
    /// Flags of the daemons, and their values.
    settings: Vec<(String, String)>,
    authority: Authority,
    caller: Certified,
}

impl Site {
    /// Starts the daemons, which believe a proxy with this name.
    pub fn start(proxy: &str) -> Self {
        Self::start_with(proxy, &[])
    }

    /// Starts the daemons with further flags and their values.
    pub fn start_with(proxy: &str, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("capstan-ca");
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let loopback = SanType::IpAddress([127, 0, 0, 1].into());
        let proxy_name = format!("{proxy}.example.org");
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let write_pair = |name: &str, pair: &Certified| {
            write(&format!("{name}.pem"), &pair.certificate);
            write(&format!("{name}.key"), &pair.key);
            // HAProxy reads both from one file.
            write(&format!("{name}-both.pem"), &format!("{}{}", pair.certificate, pair.key));
        };
        write("ca.pem", &authority.pem());
        write_pair("daemon", &authority.certify(vec![dns(DAEMON_NAME), loopback.clone()]));
        write_pair("server", &authority.certify(vec![loopback]));
        write_pair("proxy", &authority.certify(vec![dns(&proxy_name)]));
        let spiffe = SanType::URI(CALLER.try_into().unwrap());
        let caller = authority.certify_as(Some("ada"), vec![spiffe]);
        let port = |_| DaemonPorts { grpc: stable_port(), metrics: stable_port() };
        let ports = [0, 1, 2].map(port);
        let daemons = Default::default();
        let text = |(flag, value): &(&str, &str)| ((*flag).to_owned(), (*value).to_owned());
        let settings = settings.iter().map(text).collect();
        let mut site = Self { folder, ports, daemons, proxy_name, settings, authority, caller };
        (0..DAEMONS).for_each(|number| site.start_daemon(number));
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn start_daemon(&mut self, number: usize) {
        let DaemonPorts { grpc, metrics } = self.ports[number];
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let (grpc, metrics) = (format!("127.0.0.1:{grpc}"), format!("127.0.0.1:{metrics}"));
        let proxy = format!("cert:{}", self.proxy_name);
        let (certificate, key, ca) = (path("daemon.pem"), path("daemon.key"), path("ca.pem"));
        let settings = [
            ("--listen", grpc.as_str()),
            ("--metrics-listen", &metrics),
            ("--engine", "cpu"),
            ("--threads", "1"),
            ("--tls-certificate", &certificate),
            ("--tls-key", &key),
            ("--tls-client-ca", &ca),
            ("--auth-proxies", &proxy),
        ];
        let further = self.settings.iter().map(|(flag, value)| (flag.as_str(), value.as_str()));
        let settings = settings.into_iter().chain(further);
        let flags: Vec<_> = settings.flat_map(|(flag, value)| [flag, value]).collect();
        self.daemons[number] = Some(DaemonProcess::start(capstand(&flags)));
    }

    pub fn take_daemon(&mut self, number: usize) -> DaemonProcess {
        self.daemons[number].take().expect("it runs")
    }

    /// A client of one target, with the caller's certificate.
    pub fn client(&self, target: &str) -> ClientBuilder {
        self.caller.present(self.stranger(target))
    }

    /// A client without a certificate.
    pub fn stranger(&self, target: &str) -> ClientBuilder {
        Client::builder(target).ca_certificate(self.authority.pem())
    }

    /// Direct clients of all daemons.
    pub fn clients(&self) -> Vec<ClientBuilder> {
        let target = |ports: &DaemonPorts| format!("https://127.0.0.1:{}", ports.grpc);
        self.ports.iter().map(|ports| self.client(&target(ports))).collect()
    }

    /// A connection with the caller's certificate, of which each stream can receive 64 KiB until
    /// they are read.
    pub async fn channel(&self, target: &str) -> Channel {
        let identity = Identity::from_pem(&self.caller.certificate, &self.caller.key);
        let ca = Certificate::from_pem(self.authority.pem());
        let tls = ClientTlsConfig::new().ca_certificate(ca).identity(identity);
        let endpoint = Endpoint::from_shared(target.to_owned()).unwrap().tls_config(tls).unwrap();
        endpoint.initial_stream_window_size(64 << 10).connect().await.unwrap()
    }

    /// The number of bases of each daemon, as all callers of the tenant see it.
    pub async fn stored(&self) -> Vec<usize> {
        let mut counts = Vec::new();
        for builder in self.clients() {
            let client = builder.connect().await.unwrap();
            counts.push(client.list(None).await.unwrap().len());
        }
        counts
    }

    /// The name under which the daemon sees a caller who claims another one in the header that only
    /// proxies may set.
    pub async fn forger(&self, target: &str) -> String {
        use capstan::wire::v1::{GetInfoRequest, admin_client::AdminClient};
        let mut request = tonic::Request::new(GetInfoRequest {});
        request.metadata_mut().insert("x-capstan-caller", "root".parse().unwrap());
        request.metadata_mut().insert("x-capstan-tenant", "others".parse().unwrap());
        let mut admin = AdminClient::new(self.channel(target).await);
        let info = admin.get_info(request).await.unwrap().into_inner();
        info.caller.unwrap().subject
    }
}
