//! The server's settings: plain values. `config` reads and checks them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::connections::tls::TlsFiles;
use crate::{buffer::payload_file_bytes, region};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes allowed for framing and header in addition to a message's payload.
const MESSAGE_OVERHEAD_BYTES: u64 = 64 << 10;

/// Open files other than connections and stored objects: listeners, the runtime's, connections for
/// metrics and of operators, the sockets of workers, two for each of 256 regions, and 64
/// connections that ask for regions.
const OTHER_FILES: u64 = 256 + 2 * 256 + 64;

/// All settings of a server. [`ServerSettings::default`] serves on the loopback, in memory only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// TCP address to listen on; port 0 means any free port; `None` disables TCP.
    pub listen: Option<SocketAddr>,
    /// Path of the Unix socket to listen on; `None` disables it.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket. Without an administrative socket, whoever can write to
    /// it can drain the server.
    pub unix_mode: u32,
    /// Path of the administrative socket; `None` disables it. If it is set, the server is drained
    /// over it only.
    pub admin_socket: Option<PathBuf>,
    /// Permission bits of the administrative socket.
    pub admin_mode: u32,
    /// Certificate and key of the TCP listener; `None` means plain text.
    pub tls: Option<TlsFiles>,
    /// How callers over TCP are authenticated, apart from client certificates.
    pub auth: AuthSettings,
    /// Whether to serve callers without credentials beyond the loopback.
    pub insecure: bool,
    /// Maximum payload of one message, bytes.
    pub message_payload_bytes_max: u64,
    /// Payload and working memory of all jobs and uploads in flight, bytes.
    pub bytes_in_flight_max: u64,
    /// Payload and working memory in flight for one connection, bytes.
    pub connection_bytes_in_flight_max: u64,
    /// Jobs accepted and not yet answered, in total.
    pub jobs_max: u32,
    /// Jobs of one connection accepted and not yet answered.
    pub connection_jobs_max: u32,
    /// Modelled time of a program that is run.
    pub program_time_max: Duration,
    /// Uploads in progress and vectors held.
    pub uploads_max: u32,
    /// Uploads in progress and vectors held of one connection.
    pub connection_uploads_max: u32,
    /// Streams that carry one upload at the same time.
    pub upload_streams_max: u32,
    /// Memory shared with clients over the Unix socket, bytes; 0 disables it.
    pub region_bytes_max: u64,
    /// Stored bases and matrices, bytes.
    pub store_bytes_max: u64,
    /// Stored bases, objects.
    pub objects_max: u32,
    /// Connections open at once. If there is a Unix socket, TCP peers get 15/16 of them.
    pub connections_max: u32,
    /// Connections open at once from one TCP address, or from one user of the Unix socket.
    pub connections_per_address_max: u32,
    /// Time after which a connection without a call is closed.
    pub connection_idle_max: Duration,
    /// Time after which a connection takes no more calls. It is closed after twice this time.
    pub connection_age_max: Duration,
    /// Whether a connection carries calls of several callers, as those of proxies do: a reader that
    /// stalls ends its call, and never its connection. Always true for the callers that proxies
    /// name.
    pub shared_connections: bool,
    /// HTTP/2 streams open at once on one connection.
    pub streams_per_connection_max: u32,
    /// Time without enough data after which a sender is cut off, or an unfinished upload dropped.
    pub idle_timeout: Duration,
    /// Bytes per second that a sender must send, and a reader must read, while the server waits for
    /// it: the average over the idle timeout.
    pub peer_bytes_per_second_min: u64,
    /// Time for the TLS handshake and the HTTP/2 preface.
    pub handshake_timeout: Duration,
    /// Time after which an unused vector is dropped.
    pub upload_ttl: Duration,
    /// Time that accepted jobs have when the server drains.
    pub drain_grace: Duration,
    /// Jobs computed at the same time; each can use all threads of the engine. 0: two per GPU,
    /// or two without GPUs.
    pub workers: u32,
    /// Time for which a thread of the scheduler polls before it sleeps, if GPUs compute.
    pub busy_poll: Duration,
    /// File of tenants and their limits; `None` if tenants that credentials name have no limits.
    pub tenants: Option<PathBuf>,
    /// Whether metrics tell what each tenant of that file uses.
    pub metrics_tenants: bool,
    /// Directory of persistent bases; `None` disables persistence.
    pub data_dir: Option<PathBuf>,
    /// Time between two checks of all stored objects by their hash; zero for none.
    pub object_check_interval: Duration,
    /// Part of each GPU's memory for jobs that pinned bases may take, in percent.
    pub pinned_bases_percent: u32,
    /// File of bases to warm or pin before the server is ready; `None` if there are none.
    pub preload: Option<PathBuf>,
    /// Whether TCP peers may call Admin.Drain, unless there is an administrative socket.
    pub admin_over_tcp: bool,
    /// Whether gRPC reflection is served.
    pub reflection: bool,
    /// HTTP/2 flow-control window of a stream, bytes.
    pub http2_stream_window_bytes: u32,
    /// HTTP/2 flow-control window of a connection, bytes.
    pub http2_connection_window_bytes: u32,
    /// Maximum HTTP/2 frame accepted, bytes. The transport holds a frame that is not complete, also
    /// of a peer that is not authenticated.
    pub http2_frame_bytes_max: u32,
}

/// How callers over TCP are authenticated, apart from client certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// File of the tokens' hashes.
    pub tokens: Option<PathBuf>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtSettings>,
    /// Callers that authenticate others, and say whom.
    pub proxies: Option<ProxySettings>,
    /// Subjects of callers with tokens to whom the status page shows tenants and callers, such as
    /// `token:ops`.
    pub status_admins: Vec<String>,
}

/// Proxies that authenticate callers and name them in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Subjects of the proxies, as the log names callers: `uid:33`, `cert:proxy.example.org`.
    pub subjects: Vec<String>,
    /// Header with the name of the caller, in lower case.
    pub caller_header: String,
    /// Header with the caller's tenant, in lower case.
    pub tenant_header: String,
}

/// JSON Web Tokens that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// File with the issuer's public keys, a JSON Web Key Set.
    pub key_set: PathBuf,
    /// Required claim `iss`.
    pub issuer: String,
    /// Required member of the claim `aud`.
    pub audience: String,
    /// Name of the claim that names the caller's tenant.
    pub tenant_claim: String,
}

impl AuthSettings {
    /// Whether tokens of any kind are accepted.
    pub fn accepts_tokens(&self) -> bool {
        self.tokens.is_some() || self.jwt.is_some()
    }
}

impl ServerSettings {
    /// Whether callers over TCP must present credentials.
    pub fn authenticates(&self) -> bool {
        let asks_for_certificates = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        asks_for_certificates || self.auth.accepts_tokens()
    }

    /// Whether other hosts can reach the TCP listener.
    pub fn listens_beyond_loopback(&self) -> bool {
        self.listen.is_some_and(|address| !address.ip().to_canonical().is_loopback())
    }

    /// The number of files that a server may have open: connections, stored objects and others.
    pub fn open_files_max(&self) -> u64 {
        u64::from(self.connections_max) + u64::from(self.objects_max) + OTHER_FILES
    }

    /// The size of each of the two files in memory that hold inputs and results, of which
    /// `pinned_bytes` are pinned in total.
    pub fn payload_file_bytes(&self, pinned_bytes: u64) -> u64 {
        payload_file_bytes(self.bytes_in_flight_max, pinned_bytes / 2)
    }

    /// Whether the server would serve everyone who can reach it, and nobody has allowed that.
    pub(crate) fn is_exposed(&self) -> bool {
        self.listens_beyond_loopback() && !self.authenticates() && !self.insecure
    }

    /// Path of the socket that hands out regions, if there is one.
    #[doc(hidden)]
    pub fn region_socket(&self) -> Option<PathBuf> {
        let socket = self.unix_socket.as_deref().map(region::socket_path);
        socket.filter(|_| self.region_bytes_max > 0)
    }

    /// Maximum bytes of one message.
    pub(super) fn message_bytes_max(&self) -> usize {
        (self.message_payload_bytes_max + MESSAGE_OVERHEAD_BYTES) as usize
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 7654))),
            unix_socket: None,
            unix_mode: 0o660,
            admin_socket: None,
            admin_mode: 0o600,
            tls: None,
            auth: AuthSettings::default(),
            insecure: false,
            message_payload_bytes_max: MIB,
            bytes_in_flight_max: 4 * GIB,
            connection_bytes_in_flight_max: 2 * GIB,
            jobs_max: 256,
            connection_jobs_max: 64,
            program_time_max: Duration::from_secs(600),
            uploads_max: 256,
            connection_uploads_max: 64,
            // Twice what a header may announce: those of a lost connection may still be open.
            upload_streams_max: 128,
            region_bytes_max: GIB,
            store_bytes_max: 8 * GIB,
            objects_max: 16_384,
            connections_max: 1024,
            connections_per_address_max: 512,
            connection_idle_max: Duration::from_secs(600),
            connection_age_max: Duration::from_secs(3600),
            shared_connections: false,
            streams_per_connection_max: 64,
            idle_timeout: Duration::from_secs(10),
            peer_bytes_per_second_min: 16 << 10,
            handshake_timeout: Duration::from_secs(5),
            upload_ttl: Duration::from_secs(300),
            drain_grace: Duration::from_secs(30),
            workers: 0,
            busy_poll: Duration::from_micros(500),
            tenants: None,
            metrics_tenants: false,
            data_dir: None,
            object_check_interval: Duration::from_secs(86_400),
            pinned_bases_percent: 50,
            preload: None,
            admin_over_tcp: false,
            reflection: true,
            http2_stream_window_bytes: (4 * MIB) as u32,
            http2_connection_window_bytes: (16 * MIB) as u32,
            // A chunk of the Rust client.
            http2_frame_bytes_max: 256 << 10,
        }
    }
}
