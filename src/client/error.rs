//! Errors of calls, and what the caller can do about them.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::error::{FieldProblem, Reason};

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
    #[error("cannot connect to {target}: {problem}: is capstand running there?")]
    CannotConnect {
        /// The target.
        target: String,
        /// The cause.
        problem: String,
    },
    /// The input is invalid; nothing was sent.
    #[error("{field}: {problem}")]
    InvalidInput {
        /// The invalid argument.
        field: &'static str,
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
    #[error("deadline passed: allow more time or send less")]
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
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if !self.reason_text.is_empty() {
            write!(f, " ({})", self.reason_text)?;
        }
        match self.retry_after {
            Some(after) => write!(f, ": try again in {} ms", after.as_millis()),
            None => Ok(()),
        }
    }
}

impl ClientError {
    /// The gRPC code that describes the error best.
    pub fn code(&self) -> Code {
        match self {
            Self::InvalidSetting { .. } | Self::InvalidInput { .. } => Code::InvalidArgument,
            Self::CannotConnect { .. } | Self::ConnectionLost(_) => Code::Unavailable,
            Self::Refused(refusal) => refusal.code,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::InvalidResponse(_) => Code::Internal,
        }
    }

    /// The reason; `None` if the server sent none or this version does not know it.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refusal) => refusal.reason,
            Self::DeadlineExceeded => Some(Reason::Deadline),
            _ => None,
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
            _ => None,
        }
    }

    /// Index of the field's first invalid element.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => refusal.index,
            _ => None,
        }
    }

    /// How long to wait before a retry, if the server sent a delay.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
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

    /// Whether the server does not have the named object.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    pub(crate) fn input(field: &'static str, problem: FieldProblem) -> Self {
        Self::InvalidInput { field, problem }
    }

    pub(crate) fn length(field: &'static str, expected: u64, got: u64) -> Self {
        Self::InvalidInput { field, problem: FieldProblem::Length { expected, got } }
    }

    pub(crate) fn invalid_response(what: impl Into<String>) -> Self {
        Self::InvalidResponse(what.into())
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason_text = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
        if reason_text.is_empty() && is_timeout(&status) {
            return Self::DeadlineExceeded;
        }
        if reason_text.is_empty() && is_transport(&status) {
            return Self::ConnectionLost(root_cause(&status));
        }
        let violation = details.bad_request().and_then(|bad| bad.field_violations.first());
        let (field, index) = violation.map_or((None, None), |v| split_index(&v.field));
        Self::Refused(Box::new(Refusal {
            code: status.code(),
            message: status.message().to_owned(),
            reason: Reason::parse(&reason_text),
            reason_text,
            field,
            index,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }))
    }
}

/// tonic reports its expired timers as CANCELLED.
fn is_timeout(status: &Status) -> bool {
    status.code() == Code::Cancelled && status.message() == "Timeout expired"
}

/// Whether the status was created on this side from a transport error: the server's statuses have
/// no source.
fn is_transport(status: &Status) -> bool {
    // The message of tonic's generated code for a closed connection.
    let unready = status.message().starts_with("Service was not ready");
    std::error::Error::source(status).is_some() || status.code() == Code::Unknown && unready
}

/// The innermost source of the status: the outer ones only say "transport error".
fn root_cause(status: &Status) -> String {
    let mut inner: &dyn std::error::Error = status;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Splits `scalars[7]` into the field `scalars` and the index 7.
fn split_index(field: &str) -> (Option<String>, Option<u64>) {
    let split = field.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    match split.and_then(|(name, index)| Some((name, index.parse().ok()?))) {
        Some((name, index)) => (Some(name.to_owned()), Some(index)),
        None => (Some(field.to_owned()), None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::{ClientError, Reason};

    #[test]
    fn reads_reason_field_and_index_from_a_status() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("NOT_CANONICAL", "capstan", std::collections::HashMap::new())
            .add_bad_request_violation("scalars[7]", "not canonical");
        let status = Status::with_error_details(Code::InvalidArgument, "scalars[7]: bad", details);
        let error = ClientError::from(status);
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.reason(), Some(Reason::NotCanonical));
        assert_eq!((error.field(), error.index()), (Some("scalars"), Some(7)));
        assert!(!error.is_retryable());
        assert_eq!(error.to_string(), "scalars[7]: bad (NOT_CANONICAL)");
    }

    #[test]
    fn exhaustion_is_retryable_only_with_a_delay() {
        let mut details = ErrorDetails::new();
        details.set_error_info("JOBS", "capstan", std::collections::HashMap::new());
        let never = Status::with_error_details(Code::ResourceExhausted, "full", details.clone());
        assert!(!ClientError::from(never).is_retryable());
        details.set_retry_info(Some(Duration::from_millis(40)));
        let later =
            ClientError::from(Status::with_error_details(Code::ResourceExhausted, "", details));
        assert!(later.is_retryable());
        assert_eq!(later.retry_after(), Some(Duration::from_millis(40)));
    }

    #[test]
    fn unavailable_is_retryable_and_timeouts_are_deadlines() {
        assert!(ClientError::from(Status::unavailable("draining")).is_retryable());
        let error = ClientError::from(Status::cancelled("Timeout expired"));
        assert_eq!(error.code(), Code::DeadlineExceeded);
    }
}
