//! The daemon's configuration, from a file, `CAPSTAN_*` variables and flags. `table` lists every
//! setting. Only the binary reads the configuration; other modules receive values.

mod build;
mod command;
mod kind;
mod kubernetes;
mod memory;
mod source;
mod table;
mod values;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use crate::buffer::ByteSize;
pub use command::command;
#[doc(hidden)]
pub use memory::{available_to, process_limit, swap_limit_bytes};
pub use source::ConfigProblem;
#[doc(hidden)]
pub use source::{config_file, is_absent};
pub use values::SettingValues;

use crate::{grpc::ServerSettings, telemetry::LogFormat};

/// The daemon's configuration, checked as a whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server's settings.
    pub server: ServerSettings,
    /// The engine to use.
    pub engine: EngineChoice,
    /// GPU settings.
    pub cuda: CudaSettings,
    /// Threads of the CPU engine; 0 for one per core.
    pub threads: usize,
    /// Threads that recheck results; 0 for one per core.
    pub verify_threads: usize,
    /// Address of the Prometheus endpoint; `None` for no endpoint.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether that endpoint uses TLS, with the server's certificate.
    pub metrics_tls: bool,
    /// Log format.
    pub log_format: LogFormat,
    /// File of the audit log; `None` for no audit log.
    pub audit_log: Option<PathBuf>,
    /// OTLP endpoint to which spans are exported; `None` for no export.
    pub otlp_endpoint: Option<String>,
    /// Log filter, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log_level: String,
}

/// The engine that the operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// GPUs if any can be used, otherwise the CPU.
    Auto,
    /// The CPU engine.
    Cpu,
    /// GPUs; without one the daemon does not start.
    Cuda,
}

/// Where GPUs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuIsolation {
    /// Each GPU is in a worker process, which keeps only the files and system calls that drivers
    /// need. If it is lost, its jobs run again elsewhere.
    Process,
    /// Like `Process`, but workers keep all files and system calls.
    Unrestricted,
    /// All GPUs are in the daemon's process, which ends if one is lost.
    None,
}

/// GPU settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaSettings {
    /// Path of the driver library; `None` for the system's.
    pub driver: Option<PathBuf>,
    /// Device numbers; empty for all.
    pub devices: Vec<u32>,
    /// Whether each GPU is in a worker process.
    pub isolation: GpuIsolation,
    /// Number of usable GPUs required to start.
    pub devices_min: u32,
    /// Percentage of the free device memory to take, 1 to 100.
    pub memory_percent: u64,
    /// Host memory to pin for payloads.
    pub pinned_bytes: u64,
    /// Time limit for one piece of work on a device.
    pub timeout: Duration,
    /// MSMs with fewer scalars run on the CPU.
    pub msm_min: u64,
    /// NTTs with fewer elements run on the CPU.
    pub ntt_min: u64,
}
