//! Decodes programs.

use prost::Message;

use crate::{
    error::{Error, FieldProblem, Result},
    ops::OperationProgram,
    program::STEPS_MAX,
    wire::{steps, v1},
};

/// The content hash that names a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(pub [u8; 32]);

/// Separates the ids of programs from other hashes.
const ID_CONTEXT: &str = "capstan v1 program";

/// What identifies a program, valid or not.
pub struct ProgramName {
    pub id: ProgramId,
    /// Bytes of its message.
    pub bytes: usize,
}

impl ProgramName {
    pub fn of(program: &v1::Program) -> Self {
        // prost writes fields in the order of their numbers, and drops unknown fields.
        let encoded = program.encode_to_vec();
        Self { id: ProgramId(blake3::derive_key(ID_CONTEXT, &encoded)), bytes: encoded.len() }
    }
}

/// Errors: `Invalid` for the list of steps; `Item` and `Step` for the first step that is wrong.
pub fn program(program: v1::Program) -> Result<OperationProgram> {
    let count = program.steps.len();
    if count > STEPS_MAX {
        return Err(Error::field("program.steps", FieldProblem::too_long(STEPS_MAX, count)));
    }
    let steps = program.steps.into_iter().enumerate().map(|(index, step)| {
        let missing = Error::item("program.steps", index, "operation", FieldProblem::Missing);
        steps::decode(index, step.operation.ok_or(missing)?)
    });
    OperationProgram::new(steps.collect::<Result<_>>()?)
}
