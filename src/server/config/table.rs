//! The table of all settings, from which flags, help, `--print-config` and checks are generated.

use super::kind::SettingKind;

/// One setting: `name` in the file, `--name-with-dashes` as a flag, `CAPSTAN_NAME` as a variable.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name, with the unit last.
    pub name: &'static str,
    pub kind: SettingKind,
    /// Default, as in the file but without quotes.
    pub default: &'static str,
    pub about: &'static str,
}

impl Setting {
    /// The flag without its dashes, such as `idle-timeout-ms`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

const fn setting(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, kind, default, about }
}

const fn count(unit: &'static str, min: u64, max: u64) -> SettingKind {
    SettingKind::Integer { unit, min, max }
}

const fn bytes(min: u64, max: u64) -> SettingKind {
    SettingKind::Bytes { min, max, auto: None }
}

const fn bytes_or_auto(min: u64, meaning: &'static str) -> SettingKind {
    SettingKind::Bytes { min, max: 64 * TIB, auto: Some(meaning) }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const HOUR_MS: u64 = 3_600_000;
const DAY_S: u64 = 86_400;

/// Every setting, in the order of `--help` and `--print-config`.
#[rustfmt::skip]
pub const TABLE: &[Setting] = &[
    // Listeners.
    setting("listen", SettingKind::Address, "127.0.0.1:7654",
        "TCP address of the gRPC service (port 0: free); a name means its first IPv4 address."),
    setting("unix_socket", SettingKind::Path, "none",
        "Unix socket of the gRPC service; without admin_socket, its clients may also drain."),
    setting("unix_mode", SettingKind::Mode, "0660",
        "Permission bits of the Unix socket."),
    setting("admin_socket", SettingKind::Path, "none",
        "Unix socket of the Admin service; Admin.Drain is then accepted there only."),
    setting("admin_mode", SettingKind::Mode, "0600",
        "Permission bits of the administrative socket."),
    setting("tls_certificate", SettingKind::Path, "none",
        "PEM file with the TCP listener's certificate chain, leaf first; requires tls_key."),
    setting("tls_key", SettingKind::Path, "none",
        "PEM file with the certificate's private key; requires tls_certificate."),
    setting("tls_client_ca", SettingKind::Path, "none",
        "PEM file with the authorities of client certificates; requires tls_certificate."),
    setting("auth_tokens", SettingKind::Path, "none",
        "TOML file with the hashes of bearer tokens, which `capstan token new` writes."),
    setting("auth_jwks", SettingKind::Path, "none",
        "JSON file with the public keys that sign JSON Web Tokens (a JWKS)."),
    setting("auth_jwt_issuer", SettingKind::Text, "none",
        "Required claim iss of JSON Web Tokens."),
    setting("auth_jwt_audience", SettingKind::Text, "none",
        "Required member of the claim aud of JSON Web Tokens."),
    setting("auth_jwt_tenant_claim", SettingKind::Text, "tenant",
        "Claim of JSON Web Tokens that names the caller's tenant."),
    setting("auth_proxies", SettingKind::Text, "none",
        "Callers that may name others, such as uid:33,cert:proxy.example.org."),
    setting("auth_proxy_caller_header", SettingKind::Text, "x-capstan-caller",
        "Header in which such a proxy names the caller."),
    setting("auth_proxy_tenant_header", SettingKind::Text, "x-capstan-tenant",
        "Header in which such a proxy names the caller's tenant."),
    setting("status_admins", SettingKind::Text, "none",
        "Callers to whom /status shows tenants and callers, by their tokens: token:ops,jwt:ada."),
    setting("insecure", SettingKind::Flag, "false",
        "Serve callers beyond the loopback without tokens or client certificates."),
    setting("metrics_listen", SettingKind::Address, "127.0.0.1:9464",
        "TCP address of metrics and probes (port 0: a free port); keep it off public networks."),
    setting("metrics_tls", SettingKind::Flag, "false",
        "Serve metrics and probes by HTTPS, with tls_certificate and tls_key."),
    setting("metrics_tenants", SettingKind::Flag, "false",
        "Export the use of each listed tenant at /metrics."),
    setting("admin_over_tcp", SettingKind::Flag, "false",
        "Allow Admin.Drain over TCP, too, if there is no admin_socket."),
    setting("reflection", SettingKind::Flag, "true",
        "Serve gRPC reflection."),
    // Compute.
    setting("engine", SettingKind::Choice(&["auto", "cpu", "cuda"]), "auto",
        "Compute engine; auto uses the GPUs that pass their self-test, otherwise the CPU."),
    setting("cuda_driver", SettingKind::Path, "none",
        "Path of the CUDA driver library, libcuda.so; none uses the system's."),
    setting("cuda_devices", SettingKind::Devices, "all",
        "GPUs to use, as numbered by the driver; unusable GPUs are left out."),
    setting("gpu_isolation", SettingKind::Choice(&["process", "unrestricted", "none"]), "process",
        "process: a worker per GPU, with few rights; unrestricted: with all; none: no worker."),
    setting("cuda_devices_min", count("GPUs", 0, 1024), "0",
        "GPUs that must pass their self-test for the daemon to start."),
    setting("cuda_memory_percent", count("percent of a GPU's free memory", 1, 100), "90",
        "Device memory reserved at startup and leased to jobs."),
    setting("pinned_bases_percent", count("percent of a GPU's memory for jobs", 0, 90), "50",
        "Memory of a GPU that callers may pin bases in; a tenant gets half if there are others."),
    setting("cuda_pinned_bytes", bytes_or_auto(0, "1/32 of the memory, at most 4 GiB"), "auto",
        "Memory pinned at startup, half for inputs, half for results; 0 for none."),
    setting("cuda_timeout_ms", count("milliseconds", 100, HOUR_MS), "20000",
        "Time limit for one piece of work on a GPU; its worker is replaced if it is exceeded."),
    setting("cuda_msm_min", count("scalars", 0, 1 << 32), "64",
        "MSMs with fewer scalars, all vectors together, run on the CPU."),
    setting("cuda_ntt_min", count("elements", 0, 1 << 32), "256",
        "NTTs with fewer elements, all rows together, run on the CPU."),
    setting("threads", count("threads, 0 for one per core", 0, 4096), "0",
        "Threads of the CPU engine."),
    setting("verify_threads", count("threads, 0 for one per core", 0, 4096), "0",
        "Threads that recheck results if a request asks for it."),
    setting("workers", count("jobs, 0 for two per GPU, or two without GPUs", 0, 64), "0",
        "Jobs computed concurrently; they share the engine's threads."),
    setting("busy_poll_us", count("microseconds", 0, 10_000), "500",
        "With GPUs and 8 processors or more: time to poll before a waiting thread sleeps."),
    // Memory and queue.
    setting("bytes_in_flight_max",
        bytes_or_auto(MIB, "half of the memory, at least 256 MiB"), "auto",
        "Limit on the payload and working memory of all jobs and uploads."),
    setting("connection_bytes_in_flight_max",
        bytes_or_auto(MIB, "half of bytes_in_flight_max"), "auto",
        "Limit on the payload and working memory of one connection's jobs and uploads."),
    setting("region_bytes_max", bytes_or_auto(0, "1/16 of the memory"), "auto",
        "Limit on the memory that clients on the Unix socket share with the daemon; 0 for none."),
    setting("store_bytes_max", bytes_or_auto(MIB, "a quarter of the memory"), "auto",
        "Limit on the size of stored bases and matrices, in memory or mapped from data_dir."),
    // One List response holds all of them: 3.5 MB by default, below gRPC's default limit, and 57 MB
    // at most, below our client's limit, plus up to 20 bytes for each GPU that holds bases. With a
    // data directory, each is also a memory mapping, of which Linux allows a process 65,530.
    setting("objects_max", count("objects", 1, 1 << 18), "16384",
        "Number of stored bases and matrices; above 60000 in data_dir, raise vm.max_map_count."),
    setting("jobs_max", count("jobs", 1, 1_000_000), "256",
        "Limit on jobs that are accepted and not yet answered."),
    setting("connection_jobs_max", count("jobs", 1, 1_000_000), "64",
        "Limit on one connection's unanswered jobs; the default is at most jobs_max."),
    setting("program_time_max_s", count("seconds", 1, DAY_S), "600",
        "Limit on the modelled time of a program (see Compute.Estimate), an MSM or an NTT."),
    setting("tenants", SettingKind::Path, "none",
        "TOML file of tenants and their limits; none: credentials name tenants without limits."),
    setting("uploads_max", count("uploads", 1, 1_000_000), "256",
        "Limit on uploads in progress and stored vectors."),
    setting("connection_uploads_max", count("uploads", 1, 1_000_000), "64",
        "Limit on the uploads in progress and stored vectors of one connection."),
    setting("upload_streams_max", count("streams", 1, 65_536), "128",
        "Limit on the streams that carry one upload at the same time."),
    setting("upload_ttl_s", count("seconds", 1, DAY_S), "300",
        "Time after which an unused vector is dropped."),
    setting("data_dir", SettingKind::Path, "none",
        "Directory for bases and matrices that survive a restart; vectors never touch disk."),
    setting("object_check_interval_s", count("seconds, 0 for never", 0, 30 * DAY_S), "86400",
        "Time between two checks of stored objects by their hash; slower while there are jobs."),
    setting("preload", SettingKind::Path, "none",
        "TOML file of stored bases to warm or pin on GPUs before the daemon is ready."),
    // Connections.
    setting("connections_max", count("connections", 1, 1_000_000), "1024",
        "Limit on open connections; 1/16 of them are reserved for unix_socket if it is set."),
    setting("connections_per_address_max", count("connections", 1, 1_000_000), "512",
        "Limit on open connections from one TCP address (IPv6: one /64) or one local user."),
    setting("connection_idle_max_s", count("seconds", 1, DAY_S), "600",
        "Time after which a connection without a call is closed."),
    setting("connection_age_max_s", count("seconds", 1, 30 * DAY_S), "3600",
        "Time after which a connection takes no calls; it is closed after twice this time."),
    setting("shared_connections", SettingKind::Flag, "false",
        "For connections that callers share: a stalled reader loses its call, not the connection."),
    setting("streams_per_connection_max", count("streams", 1, 65_536), "64",
        "Limit on concurrent HTTP/2 streams (calls) of one connection."),
    setting("message_payload_bytes_max", bytes(512 * KIB, 64 * MIB), "1 MiB",
        "Maximum payload of one message; larger inputs are streamed."),
    setting("idle_timeout_ms", count("milliseconds", 10, HOUR_MS), "10000",
        "Time after which a silent sender is cut off and an unfinished upload is dropped."),
    setting("peer_bytes_per_second_min", bytes(1, GIB), "16 KiB",
        "Least rate of a sender or reader, as an average over idle_timeout_ms."),
    setting("handshake_timeout_ms", count("milliseconds", 10, HOUR_MS), "5000",
        "Time limit for the TLS handshake and the HTTP/2 preface."),
    setting("drain_grace_s", count("seconds", 0, DAY_S), "30",
        "Time limit for accepted jobs to finish after SIGTERM or SIGINT."),
    setting("http2_stream_window_bytes", bytes(64 * KIB, GIB), "4 MiB",
        "HTTP/2 flow-control window of one stream; the default is at most the connection's."),
    setting("http2_connection_window_bytes", bytes(64 * KIB, GIB), "16 MiB",
        "HTTP/2 flow-control window of one connection; the default is at least a stream's."),
    setting("http2_frame_bytes_max", bytes(16 * KIB, 16 * MIB - 1), "256 KiB",
        "Maximum HTTP/2 frame; each connection may hold one, even before it is authenticated."),
    // Logs.
    setting("log_format", SettingKind::Choice(&["human", "json"]), "human",
        "Format of the log on standard error."),
    setting("log_level", SettingKind::Filter, "info",
        "Log filter."),
    setting("audit_log", SettingKind::Path, "none",
        "File to which a JSON line is appended for each audited action of a caller."),
    setting("otlp_endpoint", SettingKind::Text, "none",
        "URL to which spans are exported, such as http://localhost:4317."),
];

pub fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
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
