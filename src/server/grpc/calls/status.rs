//! Why a call fails: an error of this server, or a status of the transport.

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    error::{Error, Reason},
    telemetry::CallOutcome,
    wire::{code_of, status_of},
};

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

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Transport(status)
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
