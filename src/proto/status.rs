//! Errors as gRPC statuses.

use std::{collections::HashMap, time::Duration};

use capstan_math::error::{InputError, Reason};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const DOMAIN: &str = "capstan";

/// The message of a status with [`Reason::OtherServer`].
pub const OTHER_SERVER: &str =
    "the call names another server: route calls with one capstan-affinity to one server";

/// The code of a status with this reason.
pub const fn code_of(reason: Reason) -> Code {
    use Reason::*;
    match reason {
        ObjectUnknown => Code::NotFound,
        ObjectKind | NoDataDir => Code::FailedPrecondition,
        UploadConflict | HashMismatch => Code::Aborted,
        Deadline | Idle => Code::DeadlineExceeded,
        Cancelled => Code::Cancelled,
        Draining | Loading | OtherServer | DeviceLost | DiskFailed => Code::Unavailable,
        CredentialsMissing | CredentialsInvalid | CredentialsExpired => Code::Unauthenticated,
        AdminOnly | LocalOnly | TenantUnknown => Code::PermissionDenied,
        VerifyFailed => Code::DataLoss,
        Internal | LostTwice => Code::Internal,
        BytesInFlight | OpenCalls | HealthChecks | Jobs | ConnectionBytes | ConnectionJobs
        | ConnectionUploads | UploadStreams | Uploads | Store | Objects | DiskFull
        | ProcessLimit | Connections | Regions | DeviceMemory | PinnedBases | ProgramTime
        | TenantQuota | DeadlineTooEarly => Code::ResourceExhausted,
        Unspecified | Missing | LengthMismatch | NotCanonical | NotOnCurve | NotInSubgroup
        | BadInfinity | BadEncoding | SizeZero | SizeTooLarge | OutOfRange | ValueType => {
            Code::InvalidArgument
        }
        // `Reason` may get more variants. A test below holds that all have a code.
        _ => Code::Unknown,
    }
}

/// A field that is wrong, in the details of a status.
pub struct FieldViolation {
    /// The field.
    pub path: String,
    /// Index of the first bad element, if the field has many.
    pub index: Option<u64>,
    /// What is wrong with it.
    pub problem: String,
}

/// The status of a refused call.
pub fn refusal(
    reason: Reason,
    message: impl Into<String>,
    violation: Option<FieldViolation>,
    retry_after: Option<Duration>,
) -> Status {
    let mut details = ErrorDetails::new();
    let mut metadata = HashMap::new();
    if let Some(FieldViolation { path, index, problem }) = violation {
        let at = index.map_or(String::new(), |index| format!("[{index}]"));
        details.add_bad_request_violation(format!("{path}{at}"), problem);
        metadata.insert("field".to_owned(), path);
        if let Some(index) = index {
            metadata.insert("index".to_owned(), index.to_string());
        }
    }
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    details.set_error_info(reason.text(), DOMAIN, metadata);
    Status::with_error_details(code_of(reason), message, details)
}

/// The status of a call with a wrong input.
pub fn input_status(error: InputError) -> Status {
    let reason = error.reason();
    let message = error.to_string();
    let violation = match error {
        InputError::Invalid { path, index, problem } => {
            Some(FieldViolation { path: path.to_string(), index, problem: problem.to_string() })
        }
        InputError::NotFound => None,
    };
    refusal(reason, message, violation, None)
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
