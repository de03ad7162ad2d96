//! What an engine adds to the errors of inputs, and the limits that refuse work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use capstan_math::error::{FieldPath, FieldProblem, InputError, Reason, StepField};

use crate::device::{DeviceFault, FaultClass};

/// When to retry after device memory ran out: other jobs have probably finished a piece.
const RETRY_OUT_OF_MEMORY: Duration = Duration::from_millis(500);

/// `Result` with [`EngineError`].
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

pub(crate) use EngineError as Error;

/// Why a computation failed, in terms of what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum EngineError {
    /// A limit is reached.
    #[error("{limit} {}", advice(*.retry_after))]
    Exhausted {
        /// Which limit.
        limit: Limit,
        /// When to retry; `None` if the request exceeds the limit itself.
        retry_after: Option<Duration>,
    },
    /// The caller's deadline passed.
    #[error("the deadline passed: allow more time, or send less")]
    Deadline,
    /// A stream or an unfinished upload received too little data for this long, or a client read
    /// too little of a response.
    #[error(
        "too little data within {} ms: send or read faster, or change idle_timeout_ms or \
         peer_bytes_per_second_min",
        .0.as_millis()
    )]
    Idle(Duration),
    /// The client disconnected or cancelled, or the upload ended elsewhere.
    #[error("cancelled: the client disconnected, or the upload ended on another stream")]
    Cancelled,
    /// A device failed. A server whose GPUs are in its own process restarts.
    #[error(
        "a device of the server failed: retry later; if the server has restarted, put vectors and \
         unpersisted bases again"
    )]
    DeviceLost,
    /// Devices failed twice while they ran the job.
    #[error("devices of the server failed twice during this job: tell its operator; do not retry")]
    LostTwice,
    /// The disk with the data directory cannot be written, or does not read what was written. The
    /// log has the cause.
    #[error(
        "the server cannot read or write its data directory: tell its operator, and repeat the \
         call; if bases or a matrix could not be read, put them again"
    )]
    DiskFailed,
    /// The result was wrong and was discarded.
    #[error("the result failed its check and was discarded: retry, and check the hardware")]
    Corrupt,
    /// A bug or a fault of this process; the text is for the log only.
    #[error("internal error: {0}")]
    Internal(String),
    /// An input is wrong: a retry fails, too.
    // The last variant, because formats that number variants count those that they skip.
    #[error(transparent)]
    #[serde(skip)]
    Input(#[from] InputError),
}

impl EngineError {
    /// The reason, without its details.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Input(error) => error.reason(),
            Self::Exhausted { limit, .. } => limit.reason(),
            Self::Deadline => Reason::Deadline,
            Self::Idle(_) => Reason::Idle,
            Self::Cancelled => Reason::Cancelled,
            Self::DeviceLost => Reason::DeviceLost,
            Self::LostTwice => Reason::LostTwice,
            Self::DiskFailed => Reason::DiskFailed,
            Self::Corrupt => Reason::VerifyFailed,
            Self::Internal(_) => Reason::Internal,
        }
    }

    /// An error about a whole field.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self::Input(InputError::field(field, problem))
    }

    /// An error about element `index` of a field.
    pub const fn element(field: &'static str, index: u64, problem: FieldProblem) -> Self {
        Self::Input(InputError::element(field, index, problem))
    }
}

impl From<DeviceFault> for EngineError {
    fn from(fault: DeviceFault) -> Self {
        if let DeviceFault::Input(error) = fault {
            return Self::Input(error);
        }
        match fault.class() {
            FaultClass::Exhausted => {
                let can_never_fit = matches!(
                    fault,
                    DeviceFault::OutOfMemory { requested_bytes, total_bytes, .. }
                        if requested_bytes > total_bytes
                );
                let retry_after = (!can_never_fit).then_some(RETRY_OUT_OF_MEMORY);
                Self::Exhausted { limit: Limit::DeviceMemory, retry_after }
            }
            FaultClass::Misuse => Self::Internal(fault.to_string()),
            FaultClass::Fatal => Self::DeviceLost,
        }
    }
}

fn advice(retry_after: Option<Duration>) -> &'static str {
    match retry_after {
        Some(_) => "is full: retry later",
        None => "is too small for this request: send less, or raise the limit",
    }
}

/// A limit of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Limit {
    /// Bytes of payload and working memory, in total.
    #[error("the server's byte budget (bytes_in_flight_max)")]
    BytesInFlight,
    /// Bytes of small requests that are being received.
    #[error("the limit on small requests that are being received (16 MiB of a tenant)")]
    SmallRequests,
    /// Memory of open calls and their metadata.
    #[error("the server's memory for open calls (96 MiB)")]
    OpenCalls,
    /// Bytes of health checks, which need no credentials.
    #[error("the limit on health checks (32 MiB, and 32 KiB of a connection)")]
    Probes,
    /// Jobs accepted and not yet answered, in total.
    #[error("the server's job queue (jobs_max)")]
    Jobs,
    /// Bytes of payload and working memory of one connection.
    #[error("the connection's budget (connection_bytes_in_flight_max)")]
    ConnectionBytes,
    /// Jobs of one connection.
    #[error("the connection's job quota (connection_jobs_max)")]
    ConnectionJobs,
    /// Uploads in progress and vectors of one connection.
    #[error("the connection's quota of uploads and vectors (connection_uploads_max)")]
    ConnectionUploads,
    /// Streams that carry one upload at the same time.
    #[error("the limit on open streams of one upload (upload_streams_max)")]
    UploadStreams,
    /// Uploads in progress and vectors held.
    #[error("the server's quota of uploads and vectors (uploads_max)")]
    Uploads,
    /// Bytes of stored objects.
    #[error("the server's store (store_bytes_max)")]
    Store,
    /// Stored objects.
    #[error("the server's quota of stored objects (objects_max)")]
    Objects,
    /// The disk with the data directory.
    #[error("the disk with the server's data directory")]
    Disk,
    /// Connections open at once.
    #[error("the server's connection quota (connections_max)")]
    Connections,
    /// Bytes or number of regions.
    #[error("the server's limit on shared memory (region_bytes_max, or 256 regions)")]
    Regions,
    /// Memory and open files of the server's process.
    #[error("the memory or the number of open files of the server's process")]
    Process,
    /// Memory of the devices.
    #[error("the memory of the server's devices")]
    DeviceMemory,
    /// Memory of a device that pinned bases may take.
    #[error("the server's limit on pinned bases (pinned_bases_percent, half of it for a tenant)")]
    PinnedBases,
    /// A limit of the caller's tenant.
    #[error("the tenant's limit {0}")]
    Tenant(TenantLimit),
}

/// A limit of a tenant, named as in the file of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum TenantLimit {
    /// Bytes of payload and working memory, and of responses that clients have not read.
    #[error("bytes_in_flight_max")]
    BytesInFlight,
    /// Bytes of responses that clients have not read.
    #[error("unread_bytes_max")]
    UnreadBytes,
    /// Jobs accepted and not yet answered.
    #[error("jobs_max")]
    Jobs,
    /// Uploads in progress, and vectors that clients have put.
    #[error("uploads_max")]
    Uploads,
    /// Vectors that calls have kept.
    #[error("vectors_max")]
    Vectors,
    /// Bytes of stored bases and matrices.
    #[error("store_bytes_max")]
    StoreBytes,
    /// Bytes of devices that pinned bases take.
    #[error("pinned_bases_bytes_max")]
    PinnedBasesBytes,
    /// Bytes of shared memory.
    #[error("region_bytes_max")]
    RegionBytes,
    /// Connections open at once.
    #[error("connections_max")]
    Connections,
    /// Modelled time of jobs on the devices.
    #[error("device_seconds_per_minute")]
    DeviceTime,
}

impl Limit {
    /// The reason of requests that the limit refuses.
    pub const fn reason(self) -> Reason {
        match self {
            Self::BytesInFlight | Self::SmallRequests => Reason::BytesInFlight,
            Self::OpenCalls => Reason::OpenCalls,
            Self::Probes => Reason::HealthChecks,
            Self::Jobs => Reason::Jobs,
            Self::ConnectionBytes => Reason::ConnectionBytes,
            Self::ConnectionJobs => Reason::ConnectionJobs,
            Self::ConnectionUploads => Reason::ConnectionUploads,
            Self::UploadStreams => Reason::UploadStreams,
            Self::Uploads => Reason::Uploads,
            Self::Store => Reason::Store,
            Self::Objects => Reason::Objects,
            Self::Disk => Reason::DiskFull,
            Self::Connections => Reason::Connections,
            Self::Regions => Reason::Regions,
            Self::Process => Reason::ProcessLimit,
            Self::DeviceMemory => Reason::DeviceMemory,
            Self::PinnedBases => Reason::PinnedBases,
            Self::Tenant(_) => Reason::TenantQuota,
        }
    }
}
