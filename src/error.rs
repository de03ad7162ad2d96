//! Why a request failed, in terms of what the caller can do. Knows neither gRPC nor devices.

use std::{fmt, time::Duration};

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed, in terms of what the caller can do.
///
/// Messages name the field and the index, never values, pointers or paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request itself is wrong: do not retry.
    #[error("{field}{at}: {problem}", at = At(*.index))]
    Invalid {
        /// The request's field, as the proto names it.
        field: &'static str,
        /// The first bad element, where the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Unknown, released or somebody else's: not told apart.
    #[error("no such object")]
    NotFound,
    /// The object is not of the kind that the request needs.
    #[error("the object is {held}, the request needs {needed}")]
    Mismatch {
        /// What the object is.
        held: String,
        /// What the request needs.
        needed: String,
    },
    /// The server was not configured for it.
    #[error(
        "the server has no data directory: start it with one, or put the bases without persist"
    )]
    NoDataDir,
    /// A limit is reached.
    #[error("{limit}{}", fullness(*.retry_after))]
    Exhausted {
        /// Which limit.
        limit: Limit,
        /// When to try again; `None` where the request can never fit.
        retry_after: Option<Duration>,
    },
    /// The same upload id with another header.
    #[error("the upload id is in use with another header")]
    UploadConflict,
    /// The payload is not what its hash promised.
    #[error("the payload does not have the promised hash")]
    HashMismatch,
    /// The caller's deadline passed.
    #[error("deadline passed")]
    Deadline,
    /// The sender was silent for too long.
    #[error("no data for {} ms", .0.as_millis())]
    Idle(Duration),
    /// The caller went away, or asked for it.
    #[error("cancelled")]
    Cancelled,
    /// The server is going down.
    #[error("draining")]
    Draining,
    /// Only operators may do this.
    #[error("only over the server's Unix socket")]
    AdminOnly,
    /// A device of the server failed; the server starts again.
    #[error("a device of the server failed: it starts again")]
    DeviceLost,
    /// The result was wrong and was thrown away.
    #[error("the result failed its check")]
    Corrupt,
    /// A bug or a fault of ours; the text is for the log.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An enum was left at its zero value.
    #[error("must be said")]
    Unspecified,
    /// A message or a choice is absent.
    #[error("missing")]
    Missing,
    /// Not this many bytes or elements.
    #[error("expected {expected}, got {got}")]
    Length {
        /// Bytes or elements that would be right.
        expected: u64,
        /// Bytes or elements that came.
        got: u64,
    },
    /// A coordinate or scalar is not less than its modulus.
    #[error("not canonical")]
    NotCanonical,
    /// The point does not satisfy the curve's equation.
    #[error("not on the curve")]
    NotOnCurve,
    /// The point is not in the subgroup of order r.
    #[error("not in the subgroup")]
    NotInSubgroup,
    /// Infinity with other bits set.
    #[error("malformed infinity")]
    BadInfinity,
    /// Flag bits that this encoding does not have, or bytes that are not the format.
    #[error("malformed")]
    BadEncoding,
    /// Zero, where at least one is needed.
    #[error("must not be zero")]
    Zero,
    /// More than there can be.
    #[error("must be at most {max}")]
    TooLarge {
        /// The greatest allowed value.
        max: u64,
    },
    /// Not a value of this field.
    #[error("not allowed here")]
    OutOfRange,
}

/// A limit of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Bytes of payload and working memory, whole.
    BytesInFlight,
    /// Jobs accepted and not answered, whole.
    Jobs,
    /// Bytes of payload and working memory of one connection.
    ConnectionBytes,
    /// Jobs of one connection.
    ConnectionJobs,
    /// Uploads in progress and vectors held.
    Uploads,
    /// Bytes of stored objects.
    Store,
    /// Stored objects.
    Objects,
    /// Connections open at once.
    Connections,
    /// Memory of the devices, whole.
    DeviceMemory,
}

impl Limit {
    /// The reason in `ErrorInfo`, and the metrics' label.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::BytesInFlight => "BYTES_IN_FLIGHT",
            Self::Jobs => "JOBS",
            Self::ConnectionBytes => "CONNECTION_BYTES",
            Self::ConnectionJobs => "CONNECTION_JOBS",
            Self::Uploads => "UPLOADS",
            Self::Store => "STORE",
            Self::Objects => "OBJECTS",
            Self::Connections => "CONNECTIONS",
            Self::DeviceMemory => "DEVICE_MEMORY",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BytesInFlight => "the server's budget of bytes in flight",
            Self::Jobs => "the server's job queue",
            Self::ConnectionBytes => "this connection's budget of bytes in flight",
            Self::ConnectionJobs => "this connection's budget of jobs",
            Self::Uploads => "the server's budget of uploads",
            Self::Store => "the server's store",
            Self::Objects => "the server's budget of stored objects",
            Self::Connections => "the server's budget of connections",
            Self::DeviceMemory => "the memory of the server's devices",
        })
    }
}

impl Error {
    /// A bad field as a whole.
    pub const fn field(field: &'static str, problem: Problem) -> Self {
        Self::Invalid { field, index: None, problem }
    }

    /// A bad element of a field.
    pub const fn element(field: &'static str, index: u64, problem: Problem) -> Self {
        Self::Invalid { field, index: Some(index), problem }
    }
}

fn fullness(retry_after: Option<Duration>) -> &'static str {
    if retry_after.is_some() { " is full" } else { ": the request can never fit" }
}

/// `[7]`, or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |index| write!(f, "[{index}]"))
    }
}
