//! Maps errors to gRPC statuses. All failed calls are answered through this table.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::error::{Error, FieldProblem};

const DOMAIN: &str = "capstan";

/// Retry delay for a draining server: enough for the client to reach another one.
const DRAINING_RETRY: Duration = Duration::from_secs(1);

/// Retry delay for a server that restarts because it lost a device.
const RESTART_RETRY: Duration = Duration::from_secs(15);

/// The gRPC code and the reason in `ErrorInfo`.
pub fn classify(error: &Error) -> (Code, &'static str) {
    match error {
        Error::Invalid { problem, .. } => (Code::InvalidArgument, problem_reason(*problem)),
        Error::NotFound => (Code::NotFound, "OBJECT_UNKNOWN"),
        Error::Mismatch { .. } => (Code::FailedPrecondition, "OBJECT_KIND"),
        Error::NoDataDir => (Code::FailedPrecondition, "NO_DATA_DIR"),
        Error::Exhausted { limit, .. } => (Code::ResourceExhausted, limit.reason()),
        Error::UploadConflict => (Code::Aborted, "UPLOAD_CONFLICT"),
        Error::HashMismatch => (Code::Aborted, "HASH_MISMATCH"),
        Error::Deadline => (Code::DeadlineExceeded, "DEADLINE"),
        Error::Idle(_) => (Code::DeadlineExceeded, "IDLE"),
        Error::Cancelled => (Code::Cancelled, "CANCELLED"),
        Error::Draining => (Code::Unavailable, "DRAINING"),
        Error::DeviceLost => (Code::Unavailable, "DEVICE_LOST"),
        Error::AdminOnly => (Code::PermissionDenied, "ADMIN_ONLY"),
        Error::Corrupt => (Code::DataLoss, "VERIFY_FAILED"),
        Error::Internal(_) => (Code::Internal, "INTERNAL"),
    }
}

fn problem_reason(problem: FieldProblem) -> &'static str {
    match problem {
        FieldProblem::Unspecified => "UNSPECIFIED",
        FieldProblem::Missing => "MISSING",
        FieldProblem::Length { .. } => "LENGTH_MISMATCH",
        FieldProblem::NotCanonical => "NOT_CANONICAL",
        FieldProblem::NotOnCurve => "NOT_ON_CURVE",
        FieldProblem::NotInSubgroup => "NOT_IN_SUBGROUP",
        FieldProblem::BadInfinity => "BAD_INFINITY",
        FieldProblem::BadEncoding => "BAD_ENCODING",
        FieldProblem::Zero => "SIZE_ZERO",
        FieldProblem::TooLarge { .. } => "SIZE_TOO_LARGE",
        FieldProblem::OutOfRange => "OUT_OF_RANGE",
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let (code, reason) = classify(&error);
        let mut details = ErrorDetails::new();
        let mut metadata = std::collections::HashMap::new();
        match &error {
            Error::Invalid { field, index, problem } => {
                let at = index.map_or(String::new(), |index| format!("[{index}]"));
                details.add_bad_request_violation(format!("{field}{at}"), problem.to_string());
                metadata.insert("field".to_owned(), (*field).to_owned());
                if let Some(index) = index {
                    metadata.insert("index".to_owned(), index.to_string());
                }
            }
            Error::Exhausted { retry_after: Some(after), .. } => {
                details.set_retry_info(Some(*after));
            }
            Error::Draining => {
                details.set_retry_info(Some(DRAINING_RETRY));
            }
            Error::DeviceLost => {
                details.set_retry_info(Some(RESTART_RETRY));
            }
            _ => {}
        }
        details.set_error_info(reason, DOMAIN, metadata);
        // Internal details are for the log, not for the caller.
        let message = match error {
            Error::Internal(_) => "internal error: see the server's log".to_owned(),
            public => public.to_string(),
        };
        Status::with_error_details(code, message, details)
    }
}
