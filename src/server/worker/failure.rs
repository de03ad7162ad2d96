//! Errors of runs, as they cross the border between processes.

use serde::{Deserialize, Serialize};

use crate::{
    error::{EngineError, FieldPath, FieldProblem, InputError, StepField},
    ops::{Operation, OperationProgram},
    program::{StepInputs, StepKind, StepProblem, ValueId},
};

/// Why a worker did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerFailure {
    /// An element that a step reads is invalid.
    Element { step: u32, field: String, index: u64, problem: FieldProblem },
    /// A client has released pages of a region that the call uses.
    ReleasedPages,
    /// Not an error of an input.
    Engine(EngineError),
}

impl From<EngineError> for WorkerFailure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Input(InputError::Invalid {
                path: FieldPath::Step(StepField { step, name: Some(name), .. }),
                index: Some(index),
                problem,
            }) => Self::Element { step, field: name.to_owned(), index, problem },
            EngineError::Input(InputError::Invalid {
                problem: FieldProblem::ReleasedPages,
                ..
            }) => Self::ReleasedPages,
            // The server has checked everything else about the call.
            EngineError::Input(other) => {
                let text = format!("a worker refused a checked call: {other}");
                Self::Engine(EngineError::Internal(text))
            }
            other => Self::Engine(other),
        }
    }
}

impl WorkerFailure {
    /// The error of a run of `program`.
    pub fn into_error(self, program: &OperationProgram) -> EngineError {
        match self {
            Self::Element { step, field, index, problem } => {
                let field = field_name(&program.steps()[step as usize], &field);
                let problem = StepProblem::element(field, index as usize, problem);
                program.step_error(ValueId(step), problem).into()
            }
            other => other.into_general_error(),
        }
    }

    /// The error of work that runs no program.
    pub fn into_general_error(self) -> EngineError {
        match self {
            Self::Engine(error) => error,
            Self::ReleasedPages => InputError::released_pages().into(),
            Self::Element { .. } => {
                EngineError::Internal("a worker named a step of no program".into())
            }
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
