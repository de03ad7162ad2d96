//! Errors of calls, and what the caller can do about them.

use std::{error::Error, time::Duration};

use capstan_math::error::{FieldProblem, InputError, Reason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::connection::connect_cause::ConnectCause;
use crate::wire::REQUEST_ID_METADATA;

/// `Result` with [`ClientError`].
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why a call failed and what the caller can do. Never contains scalars.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The target, a certificate or an option is unusable.
    #[error("{what}: {problem}")]
    InvalidSetting {
        /// The unusable setting.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No connection could be established.
    #[error("cannot connect to {target}: {problem}: {cause}")]
    CannotConnect {
        /// The target.
        target: String,
        /// What went wrong.
        problem: String,
        /// Why, as far as the client can tell.
        cause: ConnectCause,
    },
    /// The input is invalid; nothing was sent.
    #[error("{field}: {problem}")]
    InvalidInput {
        /// The invalid argument.
        field: &'static str,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// A program or what a run provides for it is wrong; nothing was sent.
    #[error("{}: {problem}", indexed(.path, *.index))]
    InvalidProgram {
        /// The step or its field, such as `program.steps[7].ntt.input`, or a field of the call.
        path: String,
        /// Index of the first bad element, if the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// The server refused the call or failed.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The connection broke or the server stopped. The server may have executed the call.
    #[error("connection lost: {0}: the call is safe to retry")]
    ConnectionLost(String),
    /// The deadline passed.
    #[error("the deadline passed: allow more time, or send less")]
    DeadlineExceeded,
    /// The server's response is invalid: it has another version or is another service.
    #[error("invalid response: {0}: is this a capstan server of the same version?")]
    InvalidResponse(String),
}

/// An error status from the server.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The status code.
    pub code: Code,
    /// The server's message.
    pub message: String,
    /// The reason; `None` if absent or unknown to this version.
    pub reason: Option<Reason>,
    /// `ErrorInfo.reason` as sent, such as `NOT_CANONICAL`; empty if absent.
    pub reason_text: String,
    /// The request's invalid field.
    pub field: Option<String>,
    /// Index of the field's first invalid element.
    pub index: Option<u64>,
    /// How long to wait before a retry, if the server sent a delay.
    pub retry_after: Option<Duration>,
    /// The call's id in the server's logs, if the server sent it.
    pub request_id: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        let delay_ms = self.retry_after.map(|after| after.as_millis());
        match (self.reason_text.as_str(), delay_ms) {
            ("", None) => Ok(()),
            ("", Some(ms)) => write!(f, " (retry delay {ms} ms)"),
            (reason, None) => write!(f, " ({reason})"),
            (reason, Some(ms)) => write!(f, " ({reason}, retry delay {ms} ms)"),
        }
    }
}

impl ClientError {
    /// The gRPC code that describes the error best.
    pub fn code(&self) -> Code {
        match self {
            Self::InvalidSetting { .. }
            | Self::InvalidInput { .. }
            | Self::InvalidProgram { .. } => Code::InvalidArgument,
            Self::CannotConnect { .. } | Self::ConnectionLost(_) => Code::Unavailable,
            Self::Refused(refusal) => refusal.code,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::InvalidResponse(_) => Code::Internal,
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The reason; `None` if the server sent none or this version does not know it.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::DeadlineExceeded => Some(Reason::Deadline),
            _ => self.refusal()?.reason,
        }
    }

    /// The reason as the server sent it, such as `NOT_CANONICAL`; empty if it sent none.
    pub fn reason_text(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.reason_text,
            Self::DeadlineExceeded => Reason::Deadline.text(),
            _ => "",
        }
    }

    /// The invalid field or argument.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.field.as_deref(),
            Self::InvalidInput { field, .. } => Some(field),
            Self::InvalidProgram { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Index of the field's first invalid element.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::InvalidProgram { index, .. } => *index,
            _ => self.refusal()?.index,
        }
    }

    /// Index of the program's step that is wrong.
    pub fn step(&self) -> Option<usize> {
        let (index, _) = self.field()?.strip_prefix("program.steps[")?.split_once(']')?;
        index.parse().ok()
    }

    /// How long to wait before a retry, if the server sent a delay.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// The call's id in the server's logs, if the server sent it.
    pub fn request_id(&self) -> Option<&str> {
        self.refusal()?.request_id.as_deref()
    }

    /// Whether the same call may succeed later: the server is unreachable, unavailable or
    /// temporarily full.
    pub fn is_retryable(&self) -> bool {
        match self.code() {
            Code::Unavailable => true,
            Code::ResourceExhausted => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// Whether the server refused the call before it began to compute.
    pub(crate) fn is_before_start(&self) -> bool {
        let refused = [
            Reason::BytesInFlight,
            Reason::OpenCalls,
            Reason::ConnectionBytes,
            Reason::Jobs,
            Reason::ConnectionJobs,
            Reason::ConnectionUploads,
            Reason::UploadStreams,
            Reason::Uploads,
            Reason::TenantQuota,
            Reason::DeadlineTooEarly,
            Reason::Draining,
            Reason::Loading,
            Reason::OtherServer,
        ];
        self.reason().is_some_and(|reason| refused.contains(&reason))
    }

    /// Whether the server does not have the named object.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    /// `CannotConnect` without a known cause.
    pub(crate) fn cannot_connect(target: impl Into<String>, problem: impl Into<String>) -> Self {
        let (target, problem) = (target.into(), problem.into());
        Self::CannotConnect { target, problem, cause: ConnectCause::Other }
    }

    pub(crate) fn setting(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidSetting { what: what.into(), problem: problem.into() }
    }

    /// `InvalidInput`.
    #[doc(hidden)]
    pub fn input(field: &'static str, problem: FieldProblem) -> Self {
        Self::InvalidInput { field, problem }
    }

    /// `InvalidInput` because of a wrong length.
    #[doc(hidden)]
    pub fn length(field: &'static str, expected: u64, got: u64) -> Self {
        Self::input(field, FieldProblem::Length { expected, got })
    }

    pub(crate) fn invalid_response(problem: impl Into<String>) -> Self {
        Self::InvalidResponse(problem.into())
    }
}

impl From<InputError> for ClientError {
    /// An error of the checks that client and server share.
    fn from(error: InputError) -> Self {
        match error {
            InputError::Invalid { path, index, problem } => {
                Self::InvalidProgram { path: path.to_string(), index, problem }
            }
            InputError::NotFound => Self::setting("program", error.to_string()),
        }
    }
}

/// What tonic says, without a source, of a connection that was closed before the call, and of a
/// response that ended without a status, as when a proxy loses its server.
const LOST_CONNECTIONS: [&str; 2] = ["Service was not ready", "missing grpc-status trailer"];

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason_text = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
        if reason_text.is_empty() {
            // tonic reports its expired timers as CANCELLED.
            if status.code() == Code::Cancelled && status.message() == "Timeout expired" {
                return Self::DeadlineExceeded;
            }
            let is_lost = status.code() == Code::Unknown
                && LOST_CONNECTIONS.iter().any(|text| status.message().contains(text));
            // Only a status created on this side from a transport error has a source.
            if status.source().is_some() || is_lost {
                return Self::ConnectionLost(innermost(&status));
            }
        }
        let violation = details.bad_request().and_then(|bad| bad.field_violations.first());
        let path = violation.map(|violation| violation.field.as_str());
        // An element's path is like `scalars[7]`.
        let element = path.and_then(|path| path.strip_suffix(']')?.rsplit_once('['));
        let index = element.and_then(|(_, index)| index.parse().ok());
        let field = element.filter(|_| index.is_some()).map(|(field, _)| field).or(path);
        let request_id = status.metadata().get(REQUEST_ID_METADATA);
        let request_id = request_id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        Self::Refused(Box::new(Refusal {
            request_id,
            code: status.code(),
            message: status.message().to_owned(),
            reason: Reason::parse(&reason_text),
            reason_text,
            field: field.map(str::to_owned),
            index,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }))
    }
}

/// The innermost source of an error: the outer ones only say "transport error".
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// `scalars[7]`, or `scalars` without an index.
fn indexed(field: &str, index: Option<u64>) -> String {
    index.map_or_else(|| field.to_owned(), |index| format!("{field}[{index}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_ended_without_a_status_is_a_lost_connection() {
        let is_lost = |text| {
            let error = ClientError::from(Status::unknown(text));
            matches!(error, ClientError::ConnectionLost(_))
        };
        assert!(is_lost("Service was not ready: connection closed"));
        assert!(is_lost("protocol error: missing grpc-status trailer, stream was terminated"));
        assert!(!is_lost("the server panicked"));
    }
}
