//! Errors of runs, as they cross the border between processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, FieldProblem, Limit, StepField},
    ops::{Operation, OperationProgram},
    program::{StepInputs, StepKind, StepProblem, ValueId},
};

/// Why a worker did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerFailure {
    /// An element that a step reads is invalid.
    Element {
        step: u32,
        field: String,
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
    /// A client has released pages of a region that the call uses.
    ReleasedPages,
    Internal(String),
}

impl From<Error> for WorkerFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Step {
                field: StepField { step, name: Some(name), .. },
                index: Some(index),
                problem,
            } => Self::Element { step, field: name.to_owned(), index, problem },
            Error::Exhausted { limit, retry_after } => Self::Exhausted { limit, retry_after },
            Error::Corrupt => Self::Corrupt,
            Error::Cancelled => Self::Cancelled,
            Error::Deadline => Self::Deadline,
            Error::DeviceLost => Self::DeviceLost,
            Error::DiskFailed => Self::DiskFailed,
            Error::Invalid { problem: FieldProblem::ReleasedPages, .. } => Self::ReleasedPages,
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
            Self::Element { step, field, index, problem } => {
                let field = field_name(&program.steps()[step as usize], &field);
                let problem = StepProblem::element(field, index as usize, problem);
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
            Self::ReleasedPages => Error::released_pages(),
            Self::Internal(text) => Error::Internal(text),
            Self::Element { .. } => Error::Internal("a worker named a step of no program".into()),
        }
    }
}

/// The field of this name, whose elements a run checks: that of a step's inputs, or of the elements
/// of an input step.
fn field_name(step: &Operation, name: &str) -> &'static str {
    let of_inputs = match step.inputs() {
        StepInputs::Pair { names, .. } => names.to_vec(),
        _ => vec!["input"],
    };
    of_inputs.into_iter().find(|own| *own == name).unwrap_or("elements")
}
