//! Every setting, once: the flags, their help, `--print-config` and the checks all come from here.

use super::kind::Kind;

/// One row: `name` is the key in the file, `--name-with-dashes` and `CAPSTAN_NAME`.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name, with its unit last.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// As it would be written in the file, less quotes.
    pub default: &'static str,
    /// What it does, for people.
    pub about: &'static str,
}

impl Setting {
    /// `idle-timeout-ms`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// `CAPSTAN_IDLE_TIMEOUT_MS`.
    pub fn env(&self) -> String {
        format!("CAPSTAN_{}", self.name.to_ascii_uppercase())
    }
}

const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, kind, default, about }
}

const fn count(unit: &'static str, min: u64, max: u64) -> Kind {
    Kind::Integer { unit, min, max }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max, auto: None }
}

const fn auto(meaning: &'static str) -> Kind {
    Kind::Bytes { min: MIB, max: 64 * TIB, auto: Some(meaning) }
}

const fn auto_or_none(meaning: &'static str) -> Kind {
    Kind::Bytes { min: 0, max: 64 * TIB, auto: Some(meaning) }
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
    row("listen", Kind::Address, "127.0.0.1:7654",
        "TCP address of the gRPC service; port 0 picks a free one."),
    row("unix_socket", Kind::Path, "none",
        "Unix socket of the gRPC service; its peers may also drain the server."),
    row("unix_mode", Kind::Mode, "0660",
        "Permission bits of the Unix socket."),
    row("tls_certificate", Kind::Path, "none",
        "PEM file with the TCP listener's certificate chain, leaf first; needs tls_key."),
    row("tls_key", Kind::Path, "none",
        "PEM file with the certificate's private key; needs tls_certificate."),
    row("metrics_listen", Kind::Address, "127.0.0.1:9464",
        "TCP address of the Prometheus metrics; plain HTTP, keep it off public networks."),
    row("admin_over_tcp", Kind::Flag, "false",
        "Whether TCP peers too may call Admin.Drain; Admin.GetInfo is open to all."),
    row("reflection", Kind::Flag, "true",
        "Whether gRPC reflection is served."),
    // Compute.
    row("engine", Kind::Choice(&["auto", "cpu", "cuda"]), "auto",
        "What computes; auto takes GPUs that pass their test, else the CPU, and says why."),
    row("cuda_driver", Kind::Path, "none",
        "The CUDA driver's library, libcuda.so; none takes the system's."),
    row("cuda_devices", Kind::Devices, "all",
        "GPUs to use, as the driver numbers them; one that cannot be used is left out."),
    row("cuda_devices_min", count("GPUs", 0, 1024), "0",
        "GPUs that must pass their test: with fewer the daemon does not start."),
    row("cuda_memory_percent", count("percent of a GPU's free memory", 1, 100), "90",
        "Device memory that is taken at the start and leased to jobs."),
    row("cuda_pinned_bytes", auto_or_none("a 32nd of the memory"), "auto",
        "Host memory pinned at the start, where GPUs reach large payloads; 0 for none."),
    row("cuda_timeout_ms", count("milliseconds", 100, HOUR_MS), "20000",
        "A GPU that takes longer for one piece of work is given up, and the daemon ends."),
    row("cuda_msm_min", count("scalars", 0, 1 << 32), "64",
        "MSMs of fewer scalars, all vectors together, are done by the CPU."),
    row("cuda_ntt_min", count("elements", 0, 1 << 32), "256",
        "NTTs of fewer elements, all rows together, are done by the CPU."),
    row("threads", count("threads (0: one a core)", 0, 4096), "0",
        "Threads of the CPU engine."),
    row("verify_threads", count("threads (0: one a core)", 0, 4096), "0",
        "Threads that recheck results where a request asks for it."),
    row("workers", count("jobs", 1, 64), "2",
        "Jobs computed at once; they share the engine's threads."),
    // Memory and queue.
    row("bytes_in_flight_max", auto("half of the memory, 256 MiB at least"), "auto",
        "Payload and working memory of all jobs and uploads at once."),
    row("connection_bytes_in_flight_max", auto("half of bytes_in_flight_max"), "auto",
        "Payload and working memory of one connection's jobs and uploads at once."),
    row("store_bytes_max", auto("a quarter of the memory"), "auto",
        "Stored bases, in memory or mapped from data_dir."),
    // One answer of List holds them all: 3.5 MB here, below what gRPC takes by default, and 57 MB
    // at the most, below what our client takes. With a data directory each is a mapping too, of
    // which Linux gives a process 65,530.
    row("objects_max", count("objects", 1, 1 << 18), "16384",
        "Stored bases, however small; more than 60000 in a data_dir need vm.max_map_count."),
    row("jobs_max", count("jobs", 1, 1_000_000), "256",
        "Jobs accepted and not yet answered."),
    row("connection_jobs_max", count("jobs", 1, 1_000_000), "64",
        "Jobs of one connection accepted and not yet answered."),
    row("uploads_max", count("uploads", 1, 1_000_000), "256",
        "Uploads in progress and vectors held."),
    row("upload_ttl_s", count("seconds", 1, DAY_S), "300",
        "An upload or vector that is unused for longer is dropped."),
    row("data_dir", Kind::Path, "none",
        "Folder for bases that survive a restart; scalars and vectors never touch disk."),
    // Connections.
    row("connections_max", count("connections", 1, 1_000_000), "1024",
        "Connections open at once."),
    row("streams_per_connection_max", count("streams", 1, 65_536), "64",
        "HTTP/2 streams, that is calls, open at once on one connection."),
    row("message_payload_bytes_max", bytes(512 * KIB, 64 * MIB), "1 MiB",
        "Greatest payload of one message; larger inputs are streamed."),
    row("idle_timeout_ms", count("milliseconds", 10, HOUR_MS), "10000",
        "A sender that is silent for longer is cut off."),
    row("handshake_timeout_ms", count("milliseconds", 10, HOUR_MS), "5000",
        "Time that TLS and the HTTP/2 preface may take."),
    row("drain_grace_s", count("seconds", 0, DAY_S), "30",
        "After SIGTERM or SIGINT, accepted jobs have this long to finish."),
    row("http2_stream_window_bytes", bytes(64 * KIB, GIB), "4 MiB",
        "HTTP/2 flow-control window of one stream."),
    row("http2_connection_window_bytes", bytes(64 * KIB, GIB), "16 MiB",
        "HTTP/2 flow-control window of one connection."),
    row("http2_frame_bytes_max", bytes(16 * KIB, 16 * MIB - 1), "1 MiB",
        "Greatest HTTP/2 frame taken."),
    // Logs.
    row("log_format", Kind::Choice(&["human", "json"]), "human",
        "Form of the log on standard error."),
    row("log_level", Kind::Filter, "info",
        "What is logged."),
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
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
