//! Why a request failed, in terms of what the caller can do. Independent of gRPC and of devices.

mod credentials;
mod field_problem;
mod fields;
mod limit;
mod reason;

pub use credentials::CredentialProblem;
pub use field_problem::FieldProblem;
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
    /// A limit on pinned bases leaves too little.
    #[error(
        "pinning these bases takes {bytes} bytes of GPU {device}, but {limit} leaves {left}: unpin \
         or release other bases, or raise the limit"
    )]
    PinRefused {
        /// Which limit.
        limit: Limit,
        /// Device number in the driver's order.
        device: u32,
        /// Bytes that the bases take at least, without tables.
        bytes: u64,
        /// Bytes that the limit leaves to the caller's tenant.
        left: u64,
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
            Self::Exhausted { limit, .. } | Self::PinRefused { limit, .. } => limit.reason(),
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

    /// The error of a call that uses a region whose pages its client has released.
    pub const fn released_pages() -> Self {
        Self::field("region_id", FieldProblem::ReleasedPages)
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

/// `[7]`, or nothing.
fn suffix(index: Option<u64>) -> String {
    index.map_or_else(String::new, |index| format!("[{index}]"))
}
