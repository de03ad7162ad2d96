//! Errors of runs, as they cross the border between processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, FieldProblem, Limit},
    ops::OperationProgram,
    program::{StepProblem, ValueId},
};

/// The name of the field whose elements a run checks as it reads them.
const ELEMENTS: &str = "elements";

/// Why a worker did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerFailure {
    /// An element that a step reads is invalid.
    Element {
        step: u32,
        index: u64,
        problem: FieldProblem,
    },
    Exhausted {
        limit: Limit,
        retry_after: Option<Duration>,
    },
    Corrupt,
    Cancelled,
    Deadline,
    DeviceLost,
    DiskFailed,
    Internal(String),
}

impl From<Error> for WorkerFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Step { field, index: Some(index), problem } if field.name == Some(ELEMENTS) => {
                Self::Element { step: field.step, index, problem }
            }
            Error::Exhausted { limit, retry_after } => Self::Exhausted { limit, retry_after },
            Error::Corrupt => Self::Corrupt,
            Error::Cancelled => Self::Cancelled,
            Error::Deadline => Self::Deadline,
            Error::DeviceLost => Self::DeviceLost,
            Error::DiskFailed => Self::DiskFailed,
            Error::Internal(text) => Self::Internal(text),
            // The server has checked everything else about the call.
            other => Self::Internal(format!("a worker refused a checked call: {other}")),
        }
    }
}

impl WorkerFailure {
    /// The error of a run of `program`.
    pub fn into_error(self, program: &OperationProgram) -> Error {
        match self {
            Self::Element { step, index, problem } => {
                let problem = StepProblem::element(ELEMENTS, index as usize, problem);
                program.step_error(ValueId(step), problem)
            }
            other => other.into_general_error(),
        }
    }

    /// The error of work that runs no program.
    pub fn into_general_error(self) -> Error {
        match self {
            Self::Exhausted { limit, retry_after } => Error::Exhausted { limit, retry_after },
            Self::Corrupt => Error::Corrupt,
            Self::Cancelled => Error::Cancelled,
            Self::Deadline => Error::Deadline,
            Self::DeviceLost => Error::DeviceLost,
            Self::DiskFailed => Error::DiskFailed,
            Self::Internal(text) => Error::Internal(text),
            Self::Element { .. } => Error::Internal("a worker named a step of no program".into()),
        }
    }
}
