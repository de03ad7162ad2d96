//! The limits of a server.

use serde::{Deserialize, Serialize};

use super::Reason;

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
