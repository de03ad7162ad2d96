//! Why a request failed, in terms of what the caller can do. Independent of gRPC and of devices.

use serde::{Deserialize, Serialize};

mod credentials;
mod fields;
mod limit;
mod reason;

pub use credentials::CredentialProblem;
pub use fields::{ItemField, StepField};
pub use limit::{Limit, TenantLimit};
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
    /// A step of a program is wrong: a retry fails too.
    #[error("{field}{at}: {problem}", at = suffix(*.index))]
    Step {
        /// The step, or one of its fields.
        field: StepField,
        /// Index of the first bad element, if the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// An input or an output of a program is wrong: a retry fails too.
    #[error("{field}{at}: {problem}", at = suffix(*.index))]
    Item {
        /// The item, or one of its fields.
        field: ItemField,
        /// Index of the first bad element, if the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// The id is malformed, unknown or released: callers cannot tell which.
    #[error("no object, upload or program has this id: check the id, or put it again")]
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
    #[error("the server has no data directory: set data_dir, or put the object without persist")]
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
    /// The jobs before this one would take until after its deadline.
    #[error(
        "the server expects the job to end in {expected_ms} ms, after those ahead of it, but the \
         deadline is in {left_ms} ms: retry later, or allow more time"
    )]
    DeadlineTooEarly {
        /// The modelled time until the job would end.
        expected_ms: u64,
        /// The time until the deadline.
        left_ms: u64,
        /// When to retry.
        retry_after: Duration,
    },
    /// The server is shutting down.
    #[error("the server is draining and refuses new work: retry on another connection")]
    Draining,
    /// The server does not know who calls.
    #[error("{0}")]
    Unauthenticated(CredentialProblem),
    /// The server has just started, and has not checked this object yet.
    #[error("the server is still loading this object: retry later")]
    Loading,
    /// The call names another server process.
    #[error("the call names another server: route calls with one capstan-affinity to one server")]
    OtherServer,
    /// The call is reserved for operators.
    #[error(
        "only operators may do this: use the server's administrative socket or, if it has none, \
         its Unix socket"
    )]
    AdminOnly,
    /// The caller's tenant is not in the server's file of tenants.
    #[error("the server does not know the caller's tenant: ask its operator to add it")]
    TenantUnknown,
    /// The call is for clients on the server's host.
    #[error("shared memory needs a connection over the server's Unix socket")]
    LocalOnly,
    /// A device failed. A server whose GPUs are in its own process restarts.
    #[error(
        "a device of the server failed: retry later; if the server has restarted, put vectors and \
         unpersisted bases again"
    )]
    DeviceLost,
    /// The disk with the data directory cannot be written, or does not read what was written. The
    /// log has the cause.
    #[error(
        "the server cannot read or write its data directory: tell its operator, and repeat the \
         call; if bases or a matrix could not be read, put them again"
    )]
    DiskFailed,
    /// Devices failed twice while they ran the job.
    #[error("devices of the server failed twice during this job: tell its operator; do not retry")]
    LostTwice,
    /// The result was wrong and was discarded.
    #[error("the result failed its check and was discarded: retry, and check the hardware")]
    Corrupt,
    /// A bug or a fault of the server; the text is for the log only.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
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
        /// The maximum.
        max: u64,
    },
    /// The value is too small.
    #[error("must be at least {min}")]
    TooSmall {
        /// The minimum.
        min: u64,
    },
    /// A list or a row is too long.
    #[error("too long: at most {max}, got {got}")]
    TooLong {
        /// The maximum number of elements.
        max: u64,
        /// The number of elements received.
        got: u64,
    },
    /// The element is one more than the list may have of its kind.
    #[error("one too many: at most {max} are allowed")]
    TooMany {
        /// The maximum number of such elements.
        max: u64,
    },
    /// The element equals an earlier one of the list.
    #[error("repeats an earlier element")]
    Repeated,
    /// The field does not allow this value.
    #[error("value not allowed here: see the field in the API reference")]
    OutOfRange,
    /// Not the index of an earlier step.
    #[error("must be the index of an earlier step")]
    NotEarlier,
    /// Not the index of a step.
    #[error("must be the index of a step of the program")]
    NoSuchStep,
    /// The value is not made by an input step.
    #[error("is not an input of the program")]
    NotInput,
    /// The value belongs to another program.
    #[error("is a value of another program")]
    OtherProgram,
    /// A step reads the input as elements of a field, but its encoding is narrow.
    #[error("must have a 32-byte encoding: not only MSMs read this input")]
    NarrowEncoding,
    /// The value is a list of points.
    #[error("is a list of points, but must be a vector")]
    IsPoints,
    /// The value is a vector.
    #[error("is a vector, but must be a list of points")]
    IsVector,
    /// The vector's field is not that of the other inputs.
    #[error("is a vector over another field")]
    OtherField,
    /// The vector has another number of rows.
    #[error("wrong number of rows: expected {expected}, got {got}")]
    Rows {
        /// The right number of rows.
        expected: u64,
        /// The number of rows of the value.
        got: u64,
    },
    /// The stored bases are of another group.
    #[error("the stored bases are of another group")]
    OtherGroup,
    /// The stored object is not a matrix.
    #[error("the stored object is not a matrix")]
    NotMatrix,
    /// The program's modelled time is too long; no step takes longer than this one.
    #[error(
        "the program would take {got_s} s by the server's model, and this step takes longest: at \
         most {max_s} s are allowed (program_time_max_s)"
    )]
    ProgramTime {
        /// The server's limit, in seconds.
        max_s: u64,
        /// The modelled time of the whole program, in seconds, rounded up.
        got_s: u64,
    },
    /// The id of an object or upload is malformed, unknown or released.
    #[error("no object or upload has this id: check the id, or put it again")]
    UnknownId,
    /// The id of a region is malformed, unknown, released, or of another user.
    #[error("no region has this id: check the id, or open a region")]
    UnknownRegion,
    /// The output would overwrite another output, or an input too early.
    #[error("overlaps another output, or an input that a later step reads")]
    Overlap,
}

impl FieldProblem {
    /// A list or a row of `got` elements, which may have `max` at most.
    pub const fn too_long(max: usize, got: usize) -> Self {
        Self::TooLong { max: max as u64, got: got as u64 }
    }

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
            Self::TooLarge { .. } | Self::TooLong { .. } | Self::TooMany { .. } => {
                Reason::SizeTooLarge
            }
            Self::TooSmall { .. }
            | Self::OutOfRange
            | Self::NotEarlier
            | Self::NoSuchStep
            | Self::NotInput
            | Self::OtherProgram
            | Self::Repeated
            | Self::NarrowEncoding
            | Self::Overlap => Reason::OutOfRange,
            Self::IsPoints | Self::IsVector | Self::OtherField | Self::Rows { .. } => {
                Reason::ValueType
            }
            Self::OtherGroup | Self::NotMatrix => Reason::ObjectKind,
            Self::ProgramTime { .. } => Reason::ProgramTime,
            Self::UnknownId | Self::UnknownRegion => Reason::ObjectUnknown,
        }
    }
}

impl Error {
    /// The reason, without its details.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Invalid { problem, .. }
            | Self::Step { problem, .. }
            | Self::Item { problem, .. } => problem.reason(),
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
            Self::Unauthenticated(problem) => problem.reason(),
            Self::Loading => Reason::Loading,
            Self::OtherServer => Reason::OtherServer,
            Self::AdminOnly => Reason::AdminOnly,
            Self::LocalOnly => Reason::LocalOnly,
            Self::TenantUnknown => Reason::TenantUnknown,
            Self::DeadlineTooEarly { .. } => Reason::DeadlineTooEarly,
            Self::DeviceLost => Reason::DeviceLost,
            Self::DiskFailed => Reason::DiskFailed,
            Self::LostTwice => Reason::LostTwice,
            Self::Corrupt => Reason::VerifyFailed,
            Self::Internal(_) => Reason::Internal,
        }
    }

    /// An error about a whole field.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self::Invalid { field, index: None, problem }
    }

    /// Names the item that a wrong field belongs to. Other errors stay as they are.
    pub fn of_item(self, list: &'static str, item: usize, member: &'static str) -> Self {
        let Self::Invalid { field, index, problem } = self else { return self };
        let field = ItemField { list, item: item as u32, member, name: Some(field) };
        Self::Item { field, index, problem }
    }

    /// An error about a member of an item.
    pub const fn item(
        list: &'static str,
        item: usize,
        member: &'static str,
        problem: FieldProblem,
    ) -> Self {
        let field = ItemField { list, item: item as u32, member, name: None };
        Self::Item { field, index: None, problem }
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

/// The innermost source of an error: the outer ones only say "transport error".
#[cfg(feature = "client")]
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// `[7]`, or nothing.
fn suffix(index: Option<u64>) -> String {
    index.map_or_else(String::new, |index| format!("[{index}]"))
}
