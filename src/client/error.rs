//! Why a call failed, and what its caller can do.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::error::Problem;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed, and what its caller can do. Never holds scalars.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target, a certificate or an option cannot be used.
    #[error("{what}: {problem}")]
    Setting {
        /// Which one.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No connection.
    #[error("cannot connect to {target}: {problem}: is capstand running there?")]
    Connect {
        /// Where to.
        target: String,
        /// What went wrong.
        problem: String,
    },
    /// The input is wrong, which was seen before anything was sent.
    #[error("{field}: {problem}")]
    Input {
        /// Which argument.
        field: &'static str,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The server refused or failed.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The connection broke, or the server went away. What was sent may have been done.
    #[error("connection lost: {0}: the call is safe to repeat")]
    Lost(String),
    /// The deadline passed.
    #[error("deadline passed: allow more time, or send less")]
    Deadline,
    /// The server's answer makes no sense: another version, or another service.
    #[error("unusable answer: {0}: is this a capstan server of the same version?")]
    Answer(String),
}

/// What the server said.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The status code.
    pub code: Code,
    /// The server's words.
    pub message: String,
    /// `ErrorInfo.reason`, such as `NOT_CANONICAL`. Empty where it was not given.
    pub reason: String,
    /// The request's field that is wrong.
    pub field: Option<String>,
    /// The first bad element of that field.
    pub index: Option<u64>,
    /// When it makes sense to try again.
    pub retry_after: Option<Duration>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        match self.advice() {
            Some(advice) => write!(f, ": {advice}"),
            None => Ok(()),
        }
    }
}

impl Refusal {
    /// What to do about it, where that is known.
    pub fn advice(&self) -> Option<String> {
        let fixed = match self.reason.as_str() {
            "OBJECT_UNKNOWN" => "put it again: it was released, or the server restarted",
            "OBJECT_KIND" => "name an object of the group and kind that the call needs",
            "NOT_CANONICAL" => "reduce the values modulo r first, or allow `reduce`",
            "UPLOAD_CONFLICT" => "choose a new upload id",
            "HASH_MISMATCH" => "the payload changed on its way: send it again",
            "IDLE" => "the sender was too slow: raise the server's idle timeout",
            "DEADLINE" => "allow more time, or send less",
            "DEVICE_LOST" => "the server starts again: put bases that were not persistent again",
            "ADMIN_ONLY" => "connect over the server's unix socket",
            "VERIFY_FAILED" => "the result was thrown away: repeat the call, check the hardware",
            "INTERNAL" => "see the server's log",
            _ => "",
        };
        match (fixed, self.retry_after) {
            ("", Some(after)) => Some(format!("try again in {} ms", after.as_millis())),
            ("", None) if self.code == Code::ResourceExhausted => {
                Some("it can never fit: send less, or raise the server's limits".into())
            }
            ("", None) => None,
            (fixed, _) => Some(fixed.into()),
        }
    }
}

impl Error {
    /// The gRPC code that describes this best.
    pub fn code(&self) -> Code {
        match self {
            Self::Setting { .. } | Self::Input { .. } => Code::InvalidArgument,
            Self::Connect { .. } | Self::Lost(_) => Code::Unavailable,
            Self::Refused(refusal) => refusal.code,
            Self::Deadline => Code::DeadlineExceeded,
            Self::Answer(_) => Code::Internal,
        }
    }

    /// The server's reason, such as `NOT_CANONICAL`; empty where there is none.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.reason,
            Self::Deadline => "DEADLINE",
            _ => "",
        }
    }

    /// The field that is wrong.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.field.as_deref(),
            Self::Input { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The first bad element of the field.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => refusal.index,
            _ => None,
        }
    }

    /// When it makes sense to try again, as the server said.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// True where the same call may succeed later: the server or the way to it is not available,
    /// or is full for now.
    pub fn is_retryable(&self) -> bool {
        match self.code() {
            Code::Unavailable => true,
            Code::ResourceExhausted => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// True where the server does not have what was named.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    pub(crate) fn input(field: &'static str, problem: Problem) -> Self {
        Self::Input { field, problem }
    }

    pub(crate) fn length(field: &'static str, expected: u64, got: u64) -> Self {
        Self::Input { field, problem: Problem::Length { expected, got } }
    }

    pub(crate) fn answer(what: impl Into<String>) -> Self {
        Self::Answer(what.into())
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
        if reason.is_empty() && is_timeout(&status) {
            return Self::Deadline;
        }
        if reason.is_empty() && is_transport(&status) {
            return Self::Lost(root_cause(&status));
        }
        let violation = details.bad_request().and_then(|bad| bad.field_violations.first());
        let (field, index) = violation.map_or((None, None), |v| split_index(&v.field));
        Self::Refused(Box::new(Refusal {
            code: status.code(),
            message: status.message().to_owned(),
            reason,
            field,
            index,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }))
    }
}

/// tonic's own timers say CANCELLED.
fn is_timeout(status: &Status) -> bool {
    status.code() == Code::Cancelled && status.message() == "Timeout expired"
}

/// True where the status was made on this side, from an error of the transport. The server's own
/// ones have no source.
fn is_transport(status: &Status) -> bool {
    // What tonic's generated code says of a connection that is gone.
    let unready = status.message().starts_with("Service was not ready");
    std::error::Error::source(status).is_some() || status.code() == Code::Unknown && unready
}

/// The innermost error says most: the outer ones are "transport error".
fn root_cause(status: &Status) -> String {
    let mut inner: &dyn std::error::Error = status;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// `scalars[7]` is the field `scalars` and the index 7.
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

    use super::Error;

    #[test]
    fn details_become_fields() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("NOT_CANONICAL", "capstan", std::collections::HashMap::new())
            .add_bad_request_violation("scalars[7]", "not canonical");
        let status = Status::with_error_details(Code::InvalidArgument, "scalars[7]: bad", details);
        let error = Error::from(status);
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.reason(), "NOT_CANONICAL");
        assert_eq!((error.field(), error.index()), (Some("scalars"), Some(7)));
        assert!(!error.is_retryable());
        assert!(error.to_string().contains("reduce"), "{error}");
    }

    #[test]
    fn exhaustion_is_retryable_only_with_a_delay() {
        let mut details = ErrorDetails::new();
        details.set_error_info("JOBS", "capstan", std::collections::HashMap::new());
        let never = Status::with_error_details(Code::ResourceExhausted, "full", details.clone());
        assert!(!Error::from(never).is_retryable());
        details.set_retry_info(Some(Duration::from_millis(40)));
        let later = Error::from(Status::with_error_details(Code::ResourceExhausted, "", details));
        assert!(later.is_retryable());
        assert_eq!(later.retry_after(), Some(Duration::from_millis(40)));
    }

    #[test]
    fn unavailable_is_retryable_and_timeouts_are_deadlines() {
        assert!(Error::from(Status::unavailable("draining")).is_retryable());
        let error = Error::from(Status::cancelled("Timeout expired"));
        assert_eq!(error.code(), Code::DeadlineExceeded);
    }
}
