//! Maps errors to gRPC statuses. All failed calls are answered through this table.

use std::time::Duration;

use capstan_math::error::{Error, Reason};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const DOMAIN: &str = "capstan";

/// Retry delay for a draining server: enough for the client to reach another one.
const DRAINING_RETRY: Duration = Duration::from_secs(1);

/// Retry delay for bases that are still being loaded: a gigabyte takes about a second.
const LOADING_RETRY: Duration = Duration::from_secs(2);

/// Retry delay for a server that restarts because it lost a device.
const RESTART_RETRY: Duration = Duration::from_secs(15);

/// The code of a status with this reason.
pub const fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::ObjectUnknown => Code::NotFound,
        Reason::ObjectKind | Reason::NoDataDir => Code::FailedPrecondition,
        Reason::UploadConflict | Reason::HashMismatch => Code::Aborted,
        Reason::Deadline | Reason::Idle => Code::DeadlineExceeded,
        Reason::Cancelled => Code::Cancelled,
        Reason::Draining
        | Reason::Loading
        | Reason::OtherServer
        | Reason::DeviceLost
        | Reason::DiskFailed => Code::Unavailable,
        Reason::CredentialsMissing | Reason::CredentialsInvalid | Reason::CredentialsExpired => {
            Code::Unauthenticated
        }
        Reason::AdminOnly | Reason::LocalOnly | Reason::TenantUnknown => Code::PermissionDenied,
        Reason::VerifyFailed => Code::DataLoss,
        Reason::Internal | Reason::LostTwice => Code::Internal,
        Reason::BytesInFlight
        | Reason::OpenCalls
        | Reason::HealthChecks
        | Reason::Jobs
        | Reason::ConnectionBytes
        | Reason::ConnectionJobs
        | Reason::ConnectionUploads
        | Reason::UploadStreams
        | Reason::Uploads
        | Reason::Store
        | Reason::Objects
        | Reason::DiskFull
        | Reason::ProcessLimit
        | Reason::Connections
        | Reason::Regions
        | Reason::DeviceMemory
        | Reason::PinnedBases
        | Reason::ProgramTime
        | Reason::TenantQuota
        | Reason::DeadlineTooEarly => Code::ResourceExhausted,
        Reason::Unspecified
        | Reason::Missing
        | Reason::LengthMismatch
        | Reason::NotCanonical
        | Reason::NotOnCurve
        | Reason::NotInSubgroup
        | Reason::BadInfinity
        | Reason::BadEncoding
        | Reason::SizeZero
        | Reason::SizeTooLarge
        | Reason::OutOfRange
        | Reason::ValueType => Code::InvalidArgument,
        // `Reason` may get more variants. A test below holds that all have a code.
        _ => Code::Unknown,
    }
}

/// The status that answers a call with this error.
pub fn status_of(error: Error) -> Status {
    let reason = error.reason();
    let mut details = ErrorDetails::new();
    let mut metadata = std::collections::HashMap::new();
    let violation = match &error {
        Error::Invalid { field, index, problem } => Some(((*field).to_owned(), index, problem)),
        Error::Step { field, index, problem } => Some((field.to_string(), index, problem)),
        Error::Item { field, index, problem } => Some((field.to_string(), index, problem)),
        _ => None,
    };
    if let Some((field, index, problem)) = violation {
        let at = index.map_or(String::new(), |index| format!("[{index}]"));
        details.add_bad_request_violation(format!("{field}{at}"), problem.to_string());
        metadata.insert("field".to_owned(), field);
        if let Some(index) = index {
            metadata.insert("index".to_owned(), index.to_string());
        }
    }
    let retry_after = match &error {
        Error::Exhausted { retry_after, .. } => *retry_after,
        Error::DeadlineTooEarly { retry_after, .. } => Some(*retry_after),
        Error::Draining => Some(DRAINING_RETRY),
        Error::Loading => Some(LOADING_RETRY),
        Error::OtherServer => Some(Duration::ZERO),
        Error::DeviceLost => Some(RESTART_RETRY),
        _ => None,
    };
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    details.set_error_info(reason.text(), DOMAIN, metadata);
    // Internal details are for the log, not for the caller.
    let message = match error {
        Error::Internal(_) => "internal error: see the server's log".to_owned(),
        public => public.to_string(),
    };
    Status::with_error_details(code_of(reason), message, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code() {
        for reason in Reason::ALL {
            assert_ne!(code_of(*reason), Code::Unknown, "{reason:?}");
        }
    }
}
