//! Why a call fails: an error of this server, or a status of the transport.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    error::{EngineError, Error, FieldPath, Reason},
    telemetry::CallOutcome,
    wire::{FieldViolation, code_of, input_status, refusal},
};

/// Retry delay for a draining server: enough for the client to reach another one.
const DRAINING_RETRY: Duration = Duration::from_secs(1);

/// Retry delay for bases that are still being loaded: a gigabyte takes about a second.
const LOADING_RETRY: Duration = Duration::from_secs(2);

/// Retry delay for a server that restarts because it lost a device.
const RESTART_RETRY: Duration = Duration::from_secs(15);

/// The status that answers a call with this error. All failed calls are answered through it.
pub fn status_of(error: impl Into<Error>) -> Status {
    let error = error.into();
    let reason = error.reason();
    let message = error.to_string();
    match error {
        Error::Engine(EngineError::Input(error)) => input_status(error),
        // Internal details are for the log, not for the caller.
        Error::Engine(EngineError::Internal(_)) => {
            refusal(reason, "internal error: see the server's log", None, None)
        }
        Error::ProgramTooLarge { step, excess } => {
            let violation = FieldViolation {
                path: FieldPath::Step(step).to_string(),
                index: None,
                problem: excess.to_string(),
            };
            refusal(reason, message, Some(violation), None)
        }
        other => refusal(reason, message, None, retry_after(&other)),
    }
}

fn retry_after(error: &Error) -> Option<Duration> {
    match error {
        Error::Engine(EngineError::Exhausted { retry_after, .. }) => *retry_after,
        Error::Engine(EngineError::DeviceLost) => Some(RESTART_RETRY),
        Error::DeadlineTooEarly { retry_after, .. } => Some(*retry_after),
        Error::Draining => Some(DRAINING_RETRY),
        Error::Loading => Some(LOADING_RETRY),
        Error::OtherServer => Some(Duration::ZERO),
        _ => None,
    }
}

#[derive(Debug)]
pub enum CallError {
    /// This server refuses or fails.
    Refused(Error),
    /// The transport fails, or another layer of this server has answered.
    Transport(Status),
}

impl CallError {
    pub(crate) fn outcome(&self) -> CallOutcome {
        self.reason().map_or(CallOutcome::TransportFailed, CallOutcome::Failed)
    }

    /// Whether operators should look into it: a bug, or a result that failed its check.
    pub fn is_fault(&self) -> bool {
        matches!(self.reason(), Some(Reason::Internal | Reason::LostTwice | Reason::VerifyFailed))
    }

    fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(error) => Some(error.reason()),
            // Without details, the peer has sent what the transport cannot read.
            Self::Transport(status) => {
                let info = status.get_details_error_info();
                info.and_then(|info| Reason::parse(&info.reason)).or(match status.code() {
                    Code::Cancelled => Some(Reason::Cancelled),
                    _ => None,
                })
            }
        }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Refused(error) => code_of(error.reason()),
            Self::Transport(status) => status.code(),
        }
    }
}

impl<E: Into<Error>> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => status_of(error),
            CallError::Transport(status) => status,
        }
    }
}
