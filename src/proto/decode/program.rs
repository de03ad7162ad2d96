//! Decodes programs.

use capstan_math::{
    error::{FieldProblem, InputError, Result},
    operation::OperationProgram,
    program::STEPS_MAX,
};

use crate::{encoded, program_id, steps, v1};

/// The content hash that names a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(pub [u8; 32]);

/// What identifies a program, valid or not.
pub struct ProgramName {
    pub id: ProgramId,
    /// Bytes of its message.
    pub bytes: usize,
}

impl ProgramName {
    pub fn of(program: &v1::Program) -> Self {
        let encoded = encoded(program);
        Self { id: ProgramId(program_id(&encoded)), bytes: encoded.len() }
    }
}

/// Errors: `Invalid` for the list of steps, or for the first step that is wrong.
pub fn program(program: v1::Program) -> Result<OperationProgram> {
    let count = program.steps.len();
    if count > STEPS_MAX {
        return Err(InputError::field("program.steps", FieldProblem::too_long(STEPS_MAX, count)));
    }
    let steps = program.steps.into_iter().enumerate().map(|(index, step)| {
        let missing = InputError::item("program.steps", index, "operation", FieldProblem::Missing);
        steps::decode(index, step.operation.ok_or(missing)?)
    });
    OperationProgram::new(steps.collect::<Result<_>>()?)
}
