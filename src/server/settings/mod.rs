//! All settings: one table has the name, kind, range, default and meaning of each, and the type of
//! the field that holds it. Flags, help, `--print-config`, checks, and the structs that the server
//! and the daemon read follow from the table.

mod kind;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use self::kind::{
    AutoBasis, AutoBytes,
    SettingKind::{Address, Devices, Filter, Flag, Mode, Path, Text},
    SettingType,
};
pub(crate) use self::kind::{ParsedValue, SettingKind, resolve};
use crate::{buffer::payload_file_bytes, region};

/// One setting: `name` in the file, `--name-with-dashes` as a flag, `CAPSTAN_NAME` as a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Name, with the unit last.
    pub name: &'static str,
    pub kind: SettingKind,
    /// Default, as in the file but without quotes.
    pub default: &'static str,
    /// The setting that it must not exceed. Its default follows that one.
    pub at_most: Option<&'static str>,
    pub about: &'static str,
}

impl Setting {
    /// The flag without its dashes, such as `idle-timeout-ms`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn parsed_default(&self) -> ParsedValue {
        self.kind.parse(self.default).expect("a test parses every default")
    }
}

const fn count(unit: &'static str, min: u64, max: u64) -> SettingKind {
    SettingKind::Integer { unit, min, max }
}

const fn bytes(min: u64, max: u64) -> SettingKind {
    SettingKind::Bytes { min, max, auto: None }
}

const fn bytes_or_auto(
    min: u64,
    meaning: &'static str,
    bytes: fn(AutoBasis) -> u64,
    embedded: u64,
) -> SettingKind {
    SettingKind::Bytes { min, max: 64 * TIB, auto: Some(AutoBytes { meaning, bytes, embedded }) }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const HOUR_MS: u64 = 3_600_000;
const DAY_S: u64 = 86_400;

/// Bytes allowed for framing and header in addition to a message's payload.
const MESSAGE_OVERHEAD_BYTES: u64 = 64 << 10;

/// Open files other than connections and stored objects: listeners, the runtime's, connections for
/// metrics and of operators, the sockets of workers, two for each of 256 regions, and 64
/// connections that ask for regions.
const OTHER_FILES: u64 = 256 + 2 * 256 + 64;

/// Declares a setting of a few words, and the enum of them.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            const KIND: SettingKind = SettingKind::Choice(&[$($word),+]);

            /// The word of the configuration.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl SettingType for $name {
            fn from_parsed(value: &ParsedValue, _name: &str) -> Option<Self> {
                match value {
                    $(ParsedValue::Text(word) if word == $word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

choice! {
    /// The engine that the operator chose.
    EngineChoice {
        /// GPUs if any can be used, otherwise the CPU.
        Auto = "auto",
        /// The CPU engine.
        Cpu = "cpu",
        /// GPUs; without one the daemon does not start.
        Cuda = "cuda",
    }
}

choice! {
    /// Where GPUs are used.
    GpuIsolation {
        /// Each GPU is in a worker process, which keeps only the files and system calls that
        /// drivers need. If it is lost, its jobs run again elsewhere.
        Process = "process",
        /// Like `Process`, but workers keep all files and system calls.
        Unrestricted = "unrestricted",
        /// All GPUs are in the daemon's process, which ends if one is lost.
        None = "none",
    }
}

choice! {
    /// Format of the log.
    LogFormat {
        /// Lines for people to read.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }
}

/// What is made of the values of settings.
pub(crate) trait ReadSettings {
    fn read(values: &ParsedValues) -> Self;
}

/// The name of a setting: that of its field, unless it says otherwise.
macro_rules! name_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:ident) => {
        stringify!($name)
    };
}

/// Declares a struct with a field for each of these settings, after fields made of several ones.
macro_rules! fields {
    (
        $(#[$struct_meta:meta])*
        $vis:vis struct $struct:ident { $($(#[$made_meta:meta])* $made:ident: $made_type:ty,)* }
        $($(#[$meta:meta])* $field:ident $(as $name:ident)?: $type:ty =
            $kind:expr, $default:literal, $(at_most $limit:ident,)? $about:literal;)*
    ) => {
        $(#[$struct_meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $struct {
            $($(#[$made_meta])* pub $made: $made_type,)*
            $(
                #[doc = $about]
                $(#[$meta])*
                #[doc = concat!(" The daemon's default is `", $default, "`.")]
                pub $field: $type,
            )*
        }

        impl ReadSettings for $struct {
            fn read(values: &ParsedValues) -> Self {
                Self {
                    $($made: ReadSettings::read(values),)*
                    $($field: values.get(name_of!($field $($name)?)),)*
                }
            }
        }
    };
}

/// Declares the table of settings, and the structs that hold them. A row is `field: type = kind,
/// default, meaning`. `as` gives the setting another name than the field, and `at_most` names the
/// setting that it must not exceed.
macro_rules! settings {
    // Sorts the blocks by their structs.
    (@ [$($s:tt)*] $d:tt $g:tt $c:tt [$($all:tt)*] server { $($row:tt)* } $($rest:tt)*) => {
        settings! { @ [$($s)* $($row)*] $d $g $c [$($all)* $($row)*] $($rest)* }
    };
    (@ $s:tt [$($d:tt)*] $g:tt $c:tt [$($all:tt)*] daemon { $($row:tt)* } $($rest:tt)*) => {
        settings! { @ $s [$($d)* $($row)*] $g $c [$($all)* $($row)*] $($rest)* }
    };
    (@ $s:tt $d:tt [$($g:tt)*] $c:tt [$($all:tt)*] cuda { $($row:tt)* } $($rest:tt)*) => {
        settings! { @ $s $d [$($g)* $($row)*] $c [$($all)* $($row)*] $($rest)* }
    };
    (@ $s:tt $d:tt $g:tt [$($c:tt)*] [$($all:tt)*] credentials { $($row:tt)* } $($rest:tt)*) => {
        settings! { @ $s $d $g [$($c)* $($row)*] [$($all)* $($row)*] $($rest)* }
    };
    (@ [$($server:tt)*] [$($daemon:tt)*] [$($cuda:tt)*] [$($credentials:tt)*] [$($all:tt)*]) => {
        fields! {
            /// All settings of a server. [`ServerSettings::default`] serves on the loopback, in
            /// memory only, with fixed limits on bytes.
            pub struct ServerSettings {
                /// Certificate and key of the TCP listener; `None` means plain text.
                tls: Option<TlsFiles>,
                /// How callers over TCP are authenticated, apart from client certificates.
                auth: AuthSettings,
            }
            $($server)*
        }
        fields! {
            /// The daemon's configuration, checked as a whole.
            #[allow(rustdoc::bare_urls)]
            pub struct Config {
                /// The server's settings.
                server: ServerSettings,
                /// GPU settings.
                cuda: CudaSettings,
            }
            $($daemon)*
        }
        fields! {
            /// GPU settings.
            pub struct CudaSettings {}
            $($cuda)*
        }
        fields! {
            /// Credentials, as the configuration has them.
            pub(crate) struct CredentialSettings {}
            $($credentials)*
        }
        settings! { @ $($all)* }
    };
    (@ $($(#[$meta:meta])* $field:ident $(as $name:ident)?: $type:ty =
        $kind:expr, $default:literal, $(at_most $limit:ident,)? $about:literal;)*) => {
        /// Every setting, in the order of `--help` and `--print-config`.
        pub(crate) const TABLE: &[Setting] = &[
            $(Setting {
                name: name_of!($field $($name)?),
                kind: $kind,
                default: $default,
                at_most: [$(Some(stringify!($limit)),)? None][0],
                about: $about,
            },)*
        ];
    };
    ($($block:tt)*) => {
        settings! { @ [] [] [] [] [] $($block)* }
    };
}

settings! {
// Listeners.
server {
    listen: Option<SocketAddr> = Address, "127.0.0.1:7654",
        "TCP address of the gRPC service (port 0: free); a name means its first IPv4 address.";
    unix_socket: Option<PathBuf> = Path, "none",
        "Unix socket of the gRPC service; without admin_socket, its clients may also drain.";
    /// Without an administrative socket, whoever can write to it can drain the server.
    unix_mode: u32 = Mode, "0660",
        "Permission bits of the Unix socket.";
    admin_socket: Option<PathBuf> = Path, "none",
        "Unix socket of the Admin service; Admin.Drain is then accepted there only.";
    admin_mode: u32 = Mode, "0600",
        "Permission bits of the administrative socket.";
}
credentials {
    tls_certificate: Option<PathBuf> = Path, "none",
        "PEM file with the TCP listener's certificate chain, leaf first; requires tls_key.";
    tls_key: Option<PathBuf> = Path, "none",
        "PEM file with the certificate's private key; requires tls_certificate.";
    tls_client_ca: Option<PathBuf> = Path, "none",
        "PEM file with the authorities of client certificates; requires tls_certificate.";
    auth_tokens: Option<PathBuf> = Path, "none",
        "TOML file with the hashes of bearer tokens, which `capstan token new` writes.";
    auth_jwks: Option<PathBuf> = Path, "none",
        "JSON file with the public keys that sign JSON Web Tokens (a JWKS).";
    auth_jwt_issuer: Option<String> = Text, "none",
        "Required claim iss of JSON Web Tokens.";
    auth_jwt_audience: Option<String> = Text, "none",
        "Required member of the claim aud of JSON Web Tokens.";
    auth_jwt_tenant_claim: String = Text, "tenant",
        "Claim of JSON Web Tokens that names the caller's tenant.";
    auth_proxies: Vec<String> = Text, "none",
        "Callers that may name others, such as uid:33,cert:proxy.example.org.";
    auth_proxy_caller_header: String = Text, "x-capstan-caller",
        "Header in which such a proxy names the caller.";
    auth_proxy_tenant_header: String = Text, "x-capstan-tenant",
        "Header in which such a proxy names the caller's tenant.";
    status_admins: Vec<String> = Text, "none",
        "Callers to whom /status shows tenants and callers, by their tokens: token:ops,jwt:ada.";
}
server {
    insecure: bool = Flag, "false",
        "Serve callers beyond the loopback without tokens or client certificates.";
}
daemon {
    metrics_listen: Option<SocketAddr> = Address, "127.0.0.1:9464",
        "TCP address of metrics and probes (port 0: a free port); keep it off public networks.";
    metrics_tls: bool = Flag, "false",
        "Serve metrics and probes by HTTPS, with tls_certificate and tls_key.";
}
server {
    metrics_tenants: bool = Flag, "false",
        "Export the use of each listed tenant at /metrics.";
    admin_over_tcp: bool = Flag, "false",
        "Allow Admin.Drain over TCP, too, if there is no admin_socket.";
    reflection: bool = Flag, "true",
        "Serve gRPC reflection.";
}
// Compute.
daemon {
    engine: EngineChoice = EngineChoice::KIND, "auto",
        "Compute engine; auto uses the GPUs that pass their self-test, otherwise the CPU.";
}
cuda {
    driver as cuda_driver: Option<PathBuf> = Path, "none",
        "Path of the CUDA driver library, libcuda.so; none uses the system's.";
    /// Empty: all.
    devices as cuda_devices: Vec<u32> = Devices, "all",
        "GPUs to use, as numbered by the driver; unusable GPUs are left out.";
    isolation as gpu_isolation: GpuIsolation = GpuIsolation::KIND, "process",
        "process: a worker per GPU, with few rights; unrestricted: with all; none: no worker.";
    devices_min as cuda_devices_min: u32 = count("GPUs", 0, 1024), "0",
        "GPUs that must pass their self-test for the daemon to start.";
    memory_percent as cuda_memory_percent: u64 =
        count("percent of a GPU's free memory", 1, 100), "90",
        "Device memory reserved at startup and leased to jobs.";
}
server {
    pinned_bases_percent: u32 = count("percent of a GPU's memory for jobs", 0, 90), "50",
        "Memory of a GPU that callers may pin bases in; a tenant gets half if there are others.";
}
cuda {
    // Nothing else can use pinned memory. 4 GiB are twice the scalars of the largest MSM. More
    // delays the start of the daemon, and the end of a lost worker
    // (`benches/experiments/transport.md`).
    pinned_bytes as cuda_pinned_bytes: u64 =
        bytes_or_auto(0, "1/32 of the memory, at most 4 GiB",
            |basis| (basis.memory / 32).min(4 * GIB), 0),
        "auto",
        "Memory pinned at startup, half for inputs, half for results; 0 for none.";
    timeout as cuda_timeout_ms: Duration = count("milliseconds", 100, HOUR_MS), "20000",
        "Time limit for one piece of work on a GPU; its worker is replaced if it is exceeded.";
    msm_min as cuda_msm_min: u64 = count("scalars", 0, 1 << 32), "64",
        "MSMs with fewer scalars, all vectors together, run on the CPU.";
    ntt_min as cuda_ntt_min: u64 = count("elements", 0, 1 << 32), "256",
        "NTTs with fewer elements, all rows together, run on the CPU.";
}
daemon {
    /// 0: one per core.
    threads: usize = count("threads, 0 for one per core", 0, 4096), "0",
        "Threads of the CPU engine.";
    /// 0: one per core.
    verify_threads: usize = count("threads, 0 for one per core", 0, 4096), "0",
        "Threads that recheck results if a request asks for it.";
}
server {
    /// 0: two per GPU, or two without GPUs.
    workers: u32 = count("jobs, 0 for two per GPU, or two without GPUs", 0, 64), "0",
        "Jobs computed concurrently; they share the engine's threads.";
    busy_poll as busy_poll_us: Duration = count("microseconds", 0, 10_000), "500",
        "With GPUs and 8 processors or more: time to poll before a waiting thread sleeps.";
}
// Memory and queue.
server {
    /// `ServerSettings::default` has 4 GiB.
    bytes_in_flight_max: u64 =
        bytes_or_auto(MIB, "half of the memory, at least 256 MiB",
            |basis| (basis.memory / 2).max(256 * MIB), 4 * GIB),
        "auto",
        "Limit on the payload and working memory of all jobs and uploads.";
    /// `ServerSettings::default` has 2 GiB.
    connection_bytes_in_flight_max: u64 =
        bytes_or_auto(MIB, "half of bytes_in_flight_max",
            |basis| basis.bytes_in_flight / 2, 2 * GIB),
        "auto", at_most bytes_in_flight_max,
        "Limit on the payload and working memory of one connection's jobs and uploads.";
    /// `ServerSettings::default` has 1 GiB.
    region_bytes_max: u64 =
        bytes_or_auto(0, "1/16 of the memory", |basis| basis.memory / 16, GIB),
        "auto",
        "Limit on the memory that clients on the Unix socket share with the daemon; 0 for none.";
    /// `ServerSettings::default` has 8 GiB.
    store_bytes_max: u64 =
        bytes_or_auto(MIB, "a quarter of the memory", |basis| basis.memory / 4, 8 * GIB),
        "auto",
        "Limit on the size of stored bases and matrices, in memory or mapped from data_dir.";
    // One List response holds all of them: 3.5 MB by default, below gRPC's default limit, and 57
    // MB at most, below our client's limit, plus up to 20 bytes for each GPU that holds bases.
    // With a data directory, each is also a memory mapping, of which Linux allows a process
    // 65,530.
    objects_max: u32 = count("objects", 1, 1 << 18), "16384",
        "Number of stored bases and matrices; above 60000 in data_dir, raise vm.max_map_count.";
    jobs_max: u32 = count("jobs", 1, 1_000_000), "256",
        "Limit on jobs that are accepted and not yet answered.";
    connection_jobs_max: u32 = count("jobs", 1, 1_000_000), "64", at_most jobs_max,
        "Limit on one connection's unanswered jobs; the default is at most jobs_max.";
    program_time_max as program_time_max_s: Duration = count("seconds", 1, DAY_S), "600",
        "Limit on the modelled time of a program (see Compute.Estimate), an MSM or an NTT.";
    tenants: Option<PathBuf> = Path, "none",
        "TOML file of tenants and their limits; none: credentials name tenants without limits.";
    uploads_max: u32 = count("uploads", 1, 1_000_000), "256",
        "Limit on uploads in progress and stored vectors.";
    connection_uploads_max: u32 = count("uploads", 1, 1_000_000), "64",
        "Limit on the uploads in progress and stored vectors of one connection.";
    // Twice what a header may announce: those of a lost connection may still be open.
    upload_streams_max: u32 = count("streams", 1, 65_536), "128",
        "Limit on the streams that carry one upload at the same time.";
    upload_ttl as upload_ttl_s: Duration = count("seconds", 1, DAY_S), "300",
        "Time after which an unused vector is dropped.";
    data_dir: Option<PathBuf> = Path, "none",
        "Directory for bases and matrices that survive a restart; vectors never touch disk.";
    /// Zero: never.
    object_check_interval as object_check_interval_s: Duration =
        count("seconds, 0 for never", 0, 30 * DAY_S), "86400",
        "Time between two checks of stored objects by their hash; slower while there are jobs.";
    preload: Option<PathBuf> = Path, "none",
        "TOML file of stored bases to warm or pin on GPUs before the daemon is ready.";
}
// Connections.
server {
    connections_max: u32 = count("connections", 1, 1_000_000), "1024",
        "Limit on open connections; 1/16 of them are reserved for unix_socket if it is set.";
    connections_per_address_max: u32 = count("connections", 1, 1_000_000), "512",
        "Limit on open connections from one TCP address (IPv6: one /64) or one local user.";
    connection_idle_max as connection_idle_max_s: Duration = count("seconds", 1, DAY_S), "600",
        "Time after which a connection without a call is closed.";
    connection_age_max as connection_age_max_s: Duration =
        count("seconds", 1, 30 * DAY_S), "3600",
        "Time after which a connection takes no calls; it is closed after twice this time.";
    /// Always true for the callers that proxies name.
    shared_connections: bool = Flag, "false",
        "For connections that callers share: a stalled reader loses its call, not the connection.";
    streams_per_connection_max: u32 = count("streams", 1, 65_536), "64",
        "Limit on concurrent HTTP/2 streams (calls) of one connection.";
    message_payload_bytes_max: u64 =
        bytes(512 * KIB, 64 * MIB), "1 MiB", at_most connection_bytes_in_flight_max,
        "Maximum payload of one message; larger inputs are streamed.";
    idle_timeout as idle_timeout_ms: Duration = count("milliseconds", 10, HOUR_MS), "10000",
        "Time after which a silent sender is cut off and an unfinished upload is dropped.";
    /// It holds only while the server waits for the peer.
    peer_bytes_per_second_min: u64 = bytes(1, GIB), "16 KiB",
        "Least rate of a sender or reader, as an average over idle_timeout_ms.";
    handshake_timeout as handshake_timeout_ms: Duration =
        count("milliseconds", 10, HOUR_MS), "5000",
        "Time limit for the TLS handshake and the HTTP/2 preface.";
    drain_grace as drain_grace_s: Duration = count("seconds", 0, DAY_S), "30",
        "Time limit for accepted jobs to finish after SIGTERM or SIGINT.";
    http2_stream_window_bytes: u32 =
        bytes(64 * KIB, GIB), "4 MiB", at_most http2_connection_window_bytes,
        "HTTP/2 flow-control window of one stream; the default is at most the connection's.";
    http2_connection_window_bytes: u32 = bytes(64 * KIB, GIB), "16 MiB",
        "HTTP/2 flow-control window of one connection; the default is at least a stream's.";
    // A chunk of the Rust client.
    /// The transport holds a frame that is not complete.
    http2_frame_bytes_max: u32 = bytes(16 * KIB, 16 * MIB - 1), "256 KiB",
        "Maximum HTTP/2 frame; each connection may hold one, even before it is authenticated.";
}
// Logs.
daemon {
    log_format: LogFormat = LogFormat::KIND, "human",
        "Format of the log on standard error.";
    log_level: String = Filter, "info",
        "Log filter.";
    audit_log: Option<PathBuf> = Path, "none",
        "File to which a JSON line is appended for each audited action of a caller.";
    otlp_endpoint: Option<String> = Text, "none",
        "URL to which spans are exported, such as http://localhost:4317.";
}
}

/// Files of the TCP listener's TLS, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The listener's certificate chain, leaf first.
    pub certificate: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
    /// Certificates of the authorities that sign client certificates; `None` to ask for none.
    pub client_ca: Option<PathBuf>,
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

impl ReadSettings for Option<TlsFiles> {
    fn read(values: &ParsedValues) -> Self {
        let settings = CredentialSettings::read(values);
        let (certificate, key) = (settings.tls_certificate?, settings.tls_key?);
        Some(TlsFiles { certificate, key, client_ca: settings.tls_client_ca })
    }
}

impl ReadSettings for AuthSettings {
    fn read(values: &ParsedValues) -> Self {
        let settings = CredentialSettings::read(values);
        let jwt = || {
            Some(JwtSettings {
                key_set: settings.auth_jwks?,
                issuer: settings.auth_jwt_issuer?,
                audience: settings.auth_jwt_audience?,
                tenant_claim: settings.auth_jwt_tenant_claim,
            })
        };
        let proxies = ProxySettings {
            subjects: settings.auth_proxies,
            caller_header: settings.auth_proxy_caller_header.to_ascii_lowercase(),
            tenant_header: settings.auth_proxy_tenant_header.to_ascii_lowercase(),
        };
        Self {
            tokens: settings.auth_tokens,
            jwt: jwt(),
            proxies: Some(proxies).filter(|proxies| !proxies.subjects.is_empty()),
            status_admins: settings.status_admins,
        }
    }
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
    pub(crate) fn message_bytes_max(&self) -> usize {
        (self.message_payload_bytes_max + MESSAGE_OVERHEAD_BYTES) as usize
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        let embedded = |setting: &Setting| match setting.kind {
            SettingKind::Bytes { auto: Some(auto), .. } => ParsedValue::Number(auto.embedded),
            _ => setting.parsed_default(),
        };
        Self::read(&ParsedValues(TABLE.iter().map(embedded).collect()))
    }
}

/// The value of each setting, in the order of the table.
#[derive(Debug, Clone)]
pub(crate) struct ParsedValues(Vec<ParsedValue>);

/// As in deploy/envoy.yaml.
const PROXY_WINDOW_BYTES_MAX: u32 = 64 << 20;

impl ParsedValues {
    /// Puts numbers in the place of `auto`, and fits defaults to the limits that they must not
    /// exceed. `given` says which settings are not defaults.
    pub fn new(values: Vec<ParsedValue>, given: &[bool], memory: u64) -> Self {
        let mut values = Self(values);
        for (i, setting) in TABLE.iter().enumerate() {
            if let (ParsedValue::Auto, SettingKind::Bytes { auto: Some(auto), .. }) =
                (&values.0[i], setting.kind)
            {
                let bytes_in_flight = values.number("bytes_in_flight_max");
                let bytes = (auto.bytes)(AutoBasis { memory, bytes_in_flight });
                values.0[i] = ParsedValue::Number(bytes);
            }
            if let (Some(limit), false) = (setting.at_most, given[i]) {
                let number = values.number(setting.name).min(values.number(limit));
                values.0[i] = ParsedValue::Number(number);
            }
        }
        let window = position("http2_connection_window_bytes");
        if !given[window] {
            values.0[window] = ParsedValue::Number(values.connection_window().into());
        }
        values
    }

    /// The default of a connection's window, which follows that of a stream. A connection of a
    /// proxy carries the uploads of many callers, so that each of its streams gets its window, up
    /// to [`PROXY_WINDOW_BYTES_MAX`].
    fn connection_window(&self) -> u32 {
        let stream: u32 = self.get("http2_stream_window_bytes");
        let has_proxies =
            self.get("shared_connections") || !self.get::<Vec<String>>("auth_proxies").is_empty();
        let of_all_streams = stream.saturating_mul(self.get("streams_per_connection_max"));
        let proxies = if has_proxies { of_all_streams.min(PROXY_WINDOW_BYTES_MAX) } else { 0 };
        self.get::<u32>("http2_connection_window_bytes").max(stream).max(proxies)
    }

    /// The value of a setting, as the type of its field.
    pub fn get<T: SettingType>(&self, name: &str) -> T {
        let value = T::from_parsed(&self.0[position(name)], name);
        value.expect("the kind and the range of each setting fit the type of its field")
    }

    /// Whether a setting has another value than the word `none`.
    pub fn is_set(&self, name: &str) -> bool {
        self.0[position(name)] != ParsedValue::Disabled
    }

    /// The value of a setting that is a number; 0 for any other.
    pub fn number(&self, name: &str) -> u64 {
        match self.0[position(name)] {
            ParsedValue::Number(number) => number,
            _ => 0,
        }
    }
}

/// The place of a setting in the table.
pub(crate) fn position(name: &str) -> usize {
    find(name).expect("the name is in the table")
}

/// The place of a setting in the table, if there is one of this name.
pub(crate) fn find(name: &str) -> Option<usize> {
    TABLE.iter().position(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_valid_name_default_and_description() {
        for (i, setting) in TABLE.iter().enumerate() {
            let name = setting.name;
            assert!(setting.kind.parse(setting.default).is_some(), "{name}: default out of range");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'2'),
                "{name}"
            );
            assert!(setting.about.ends_with('.') && setting.about.len() < 90, "{name}");
            assert!(TABLE[..i].iter().all(|other| other.name != name), "{name} twice");
        }
    }
}
