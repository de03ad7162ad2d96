//! What the service adds to the errors of inputs and engines.

use std::time::Duration;

pub use capstan_engine::engine_error::{EngineError, Limit, Result as EngineResult, TenantLimit};
pub use capstan_math::error::{FieldPath, FieldProblem, InputError, Reason, StepField};

pub use crate::identity::CredentialProblem;
use crate::wire::OTHER_SERVER;

/// `Result` with [`ServiceError`].
pub type Result<T, E = ServiceError> = std::result::Result<T, E>;

pub(crate) use ServiceError as Error;

/// Why a call failed, in terms of what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// An input is wrong, a limit is reached, or a computation failed.
    #[error(transparent)]
    Engine(EngineError),
    /// A program exceeds a limit, however little else the server computes.
    #[error("{step}: {excess}", step = FieldPath::Step(*.step))]
    ProgramTooLarge {
        /// The step that takes most.
        step: StepField,
        /// The limit.
        excess: ProgramExcess,
    },
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
    #[error("{OTHER_SERVER}")]
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
}

/// What a program takes too much of. No step takes more of it than the one that the error names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramExcess {
    /// Modelled time.
    #[error(
        "the program would take {got_s} s by the server's model, and this step takes longest: at \
         most {max_s} s are allowed (program_time_max_s)"
    )]
    Time {
        /// The server's limit, in seconds.
        max_s: u64,
        /// The modelled time of the whole program, in seconds, rounded up.
        got_s: u64,
    },
    /// Memory.
    #[error(
        "the program would take {got} bytes with its inputs and outputs, and this step takes most: \
         {limit} allows {max}"
    )]
    Bytes {
        /// Which limit.
        limit: Limit,
        /// The bytes that it allows.
        max: u64,
        /// The bytes of the whole call.
        got: u64,
    },
}

impl ServiceError {
    /// The id is malformed, unknown or released.
    pub const NOT_FOUND: Self = Self::Engine(EngineError::Input(InputError::NotFound));
    /// The client disconnected or cancelled, or the upload ended elsewhere.
    pub const CANCELLED: Self = Self::Engine(EngineError::Cancelled);
    /// The caller's deadline passed.
    pub const DEADLINE: Self = Self::Engine(EngineError::Deadline);
    /// The disk with the data directory failed.
    pub const DISK_FAILED: Self = Self::Engine(EngineError::DiskFailed);

    /// The reason, without its details.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Engine(error) => error.reason(),
            Self::ProgramTooLarge { excess: ProgramExcess::Time { .. }, .. } => Reason::ProgramTime,
            Self::ProgramTooLarge { excess: ProgramExcess::Bytes { limit, .. }, .. }
            | Self::PinRefused { limit, .. } => limit.reason(),
            Self::Mismatch { .. } => Reason::ObjectKind,
            Self::NoDataDir => Reason::NoDataDir,
            Self::UploadConflict => Reason::UploadConflict,
            Self::HashMismatch => Reason::HashMismatch,
            Self::Draining => Reason::Draining,
            Self::Unauthenticated(problem) => problem.reason(),
            Self::Loading => Reason::Loading,
            Self::OtherServer => Reason::OtherServer,
            Self::AdminOnly => Reason::AdminOnly,
            Self::LocalOnly => Reason::LocalOnly,
            Self::TenantUnknown => Reason::TenantUnknown,
            Self::DeadlineTooEarly { .. } => Reason::DeadlineTooEarly,
        }
    }

    /// The limit that refuses the call.
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Engine(EngineError::Exhausted { limit, .. })
            | Self::ProgramTooLarge { excess: ProgramExcess::Bytes { limit, .. }, .. }
            | Self::PinRefused { limit, .. } => Some(*limit),
            _ => None,
        }
    }

    /// Names the item that a wrong field belongs to. Other errors stay as they are.
    pub fn of_item(self, list: &'static str, item: usize, member: &'static str) -> Self {
        match self {
            Self::Engine(EngineError::Input(error)) => error.of_item(list, item, member).into(),
            other => other,
        }
    }

    /// A bug or a fault of the server; the text is for the log only.
    pub fn internal(problem: impl Into<String>) -> Self {
        Self::Engine(EngineError::Internal(problem.into()))
    }

    /// An error about a whole field.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self::Engine(EngineError::field(field, problem))
    }

    /// An error about element `index` of a field.
    pub const fn element(field: &'static str, index: u64, problem: FieldProblem) -> Self {
        Self::Engine(EngineError::element(field, index, problem))
    }
}

impl<E: Into<EngineError>> From<E> for ServiceError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}
