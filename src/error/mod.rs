//! Why a request failed, in terms of what the caller can do. Independent of gRPC and of devices.

mod reason;

pub use reason::Reason;

use std::time::Duration;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. Messages name the field and the index, never values, pointers or paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request is wrong: a retry fails too.
    #[error("{field}{at}: {problem}", at = suffix(*.index))]
    Invalid {
        /// The request's field, named as in the proto.
        field: &'static str,
        /// Index of the first bad element, if the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// The id is malformed, unknown or released: callers cannot tell which.
    #[error("no object or upload has this id: check the id, or put the object again")]
    NotFound,
    /// The object does not have the kind, group or encoding that the request needs.
    #[error("the object is {held}, but the request needs {needed}")]
    Mismatch {
        /// What the object is.
        held: String,
        /// What the request needs.
        needed: String,
    },
    /// The server has no data directory.
    #[error("the server has no data directory: set data_dir, or put the bases without persist")]
    NoDataDir,
    /// A limit is reached.
    #[error("{limit} {}", advice(*.retry_after))]
    Exhausted {
        /// Which limit.
        limit: Limit,
        /// When to retry; `None` if the request exceeds the limit itself.
        retry_after: Option<Duration>,
    },
    /// The upload id is in use with another header.
    #[error("the upload id is in use with another header: choose a new random id")]
    UploadConflict,
    /// The payload's hash is not the one in the header.
    #[error("the payload does not match payload_hash: check the hash, or send the payload again")]
    HashMismatch,
    /// The caller's deadline passed.
    #[error("the deadline passed: allow more time, or send less")]
    Deadline,
    /// A stream or an upload received too little data for this long.
    #[error(
        "too little data within {} ms: send faster, or raise idle_timeout_ms or upload_ttl_s",
        .0.as_millis()
    )]
    Idle(Duration),
    /// The client disconnected or cancelled, or the upload ended elsewhere.
    #[error("cancelled: the client disconnected, or the upload ended on another stream")]
    Cancelled,
    /// The server is shutting down.
    #[error("the server is draining and refuses new work: retry on another connection")]
    Draining,
    /// The call is reserved for operators.
    #[error("not allowed over TCP: use the server's Unix socket, or configure admin_over_tcp")]
    AdminOnly,
    /// A device failed; the server restarts and keeps only persisted bases.
    #[error(
        "a device of the server failed and the server restarts: retry later, and put vectors and \
         unpersisted bases again"
    )]
    DeviceLost,
    /// The result was wrong and was discarded.
    #[error("the result failed its check and was discarded: retry, and check the hardware")]
    Corrupt,
    /// A bug or a fault of the server; the text is for the log only.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// An enum was left at its zero value.
    #[error("must be specified: the zero value is not allowed")]
    Unspecified,
    /// A required message, or every member of a oneof, is absent.
    #[error("is required")]
    Missing,
    /// The length or count is wrong.
    #[error("wrong length: expected {expected}, got {got}")]
    Length {
        /// The right number of bytes or elements.
        expected: u64,
        /// The number of bytes or elements received.
        got: u64,
    },
    /// A coordinate or scalar is not less than its modulus.
    #[error("not canonical: must be less than the modulus")]
    NotCanonical,
    /// The point does not satisfy the curve equation.
    #[error("not on the curve")]
    NotOnCurve,
    /// The point is not in the subgroup of order r.
    #[error("not in the subgroup of order r")]
    NotInSubgroup,
    /// The infinity flag is set together with other bits.
    #[error("malformed infinity: all other bits must be zero")]
    BadInfinity,
    /// Flag bits that the encoding does not have, or a label with control characters.
    #[error("malformed: has flag bits or characters that are not allowed here")]
    BadEncoding,
    /// The value is zero.
    #[error("must not be zero")]
    Zero,
    /// The value is too large.
    #[error("must be at most {max}")]
    TooLarge {
        /// The greatest allowed value.
        max: u64,
    },
    /// The field does not allow this value.
    #[error("value not allowed here: see the field in the API reference")]
    OutOfRange,
}

impl FieldProblem {
    /// The reason of requests with this problem.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Unspecified => Reason::Unspecified,
            Self::Missing => Reason::Missing,
            Self::Length { .. } => Reason::LengthMismatch,
            Self::NotCanonical => Reason::NotCanonical,
            Self::NotOnCurve => Reason::NotOnCurve,
            Self::NotInSubgroup => Reason::NotInSubgroup,
            Self::BadInfinity => Reason::BadInfinity,
            Self::BadEncoding => Reason::BadEncoding,
            Self::Zero => Reason::SizeZero,
            Self::TooLarge { .. } => Reason::SizeTooLarge,
            Self::OutOfRange => Reason::OutOfRange,
        }
    }
}

/// A limit of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Limit {
    /// Bytes of payload and working memory, in total.
    #[error("the server's byte budget (bytes_in_flight_max)")]
    BytesInFlight,
    /// Jobs accepted and not yet answered, in total.
    #[error("the server's job queue (jobs_max)")]
    Jobs,
    /// Bytes of payload and working memory of one connection.
    #[error("the connection's budget (connection_bytes_in_flight_max)")]
    ConnectionBytes,
    /// Jobs of one connection.
    #[error("the connection's job quota (connection_jobs_max)")]
    ConnectionJobs,
    /// Uploads in progress and vectors held.
    #[error("the server's quota of uploads and vectors (uploads_max)")]
    Uploads,
    /// Bytes of stored objects.
    #[error("the server's store (store_bytes_max)")]
    Store,
    /// Stored objects.
    #[error("the server's quota of stored bases (objects_max)")]
    Objects,
    /// Connections open at once.
    #[error("the server's connection quota (connections_max)")]
    Connections,
    /// Memory of the devices.
    #[error("the memory of the server's devices")]
    DeviceMemory,
}

impl Limit {
    /// The reason of requests that the limit refuses.
    pub const fn reason(self) -> Reason {
        match self {
            Self::BytesInFlight => Reason::BytesInFlight,
            Self::Jobs => Reason::Jobs,
            Self::ConnectionBytes => Reason::ConnectionBytes,
            Self::ConnectionJobs => Reason::ConnectionJobs,
            Self::Uploads => Reason::Uploads,
            Self::Store => Reason::Store,
            Self::Objects => Reason::Objects,
            Self::Connections => Reason::Connections,
            Self::DeviceMemory => Reason::DeviceMemory,
        }
    }
}

impl Error {
    /// The reason, without its details.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Invalid { problem, .. } => problem.reason(),
            Self::NotFound => Reason::ObjectUnknown,
            Self::Mismatch { .. } => Reason::ObjectKind,
            Self::NoDataDir => Reason::NoDataDir,
            Self::Exhausted { limit, .. } => limit.reason(),
            Self::UploadConflict => Reason::UploadConflict,
            Self::HashMismatch => Reason::HashMismatch,
            Self::Deadline => Reason::Deadline,
            Self::Idle(_) => Reason::Idle,
            Self::Cancelled => Reason::Cancelled,
            Self::Draining => Reason::Draining,
            Self::AdminOnly => Reason::AdminOnly,
            Self::DeviceLost => Reason::DeviceLost,
            Self::Corrupt => Reason::VerifyFailed,
            Self::Internal(_) => Reason::Internal,
        }
    }

    /// An error about a whole field.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self::Invalid { field, index: None, problem }
    }

    /// An error about element `index` of a field.
    pub const fn element(field: &'static str, index: u64, problem: FieldProblem) -> Self {
        Self::Invalid { field, index: Some(index), problem }
    }
}

fn advice(retry_after: Option<Duration>) -> &'static str {
    match retry_after {
        Some(_) => "is full: retry later",
        None => "is too small for this request: send less, or raise the limit",
    }
}

/// `[7]`, or nothing.
fn suffix(index: Option<u64>) -> String {
    index.map_or_else(String::new, |index| format!("[{index}]"))
}
