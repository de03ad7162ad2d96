//! A checked program, sent with each run or named by its id.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use capstan_math::operation::{Operation, OperationProgram};

use super::value::ProgramTag;
use crate::{
    error::Result,
    objects::held::HeldObject,
    wire::{
        self,
        v1::{self, program_ref},
    },
};

/// A program that a [`ProgramBuilder`](super::ProgramBuilder) built. Cheap to clone.
#[derive(Clone)]
pub struct ClientProgram {
    parts: Arc<ProgramParts>,
    /// The id under which the server stores it; without one, runs send the whole program.
    id: Option<[u8; 32]>,
}

struct ProgramParts {
    tag: ProgramTag,
    program: OperationProgram,
    message: v1::Program,
    held: Vec<Arc<HeldObject>>,
}

impl ClientProgram {
    pub(crate) fn new(
        tag: ProgramTag,
        steps: Vec<Operation>,
        held: Vec<Arc<HeldObject>>,
    ) -> Result<Self> {
        let program = OperationProgram::new(steps)?;
        let message = wire::steps::message(program.steps());
        Ok(Self { parts: Arc::new(ProgramParts { tag, program, message, held }), id: None })
    }

    /// The program's id, a hash of its content, if [`crate::Client::put_program`]
    /// returned it.
    pub fn id(&self) -> Option<[u8; 32]> {
        self.id
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.program().steps().len()
    }

    /// The same program, which runs refer to by its id.
    pub(crate) fn stored_as(&self, id: [u8; 32]) -> Self {
        Self { parts: self.parts.clone(), id: Some(id) }
    }

    pub(crate) fn tag(&self) -> ProgramTag {
        self.parts.tag
    }

    pub(crate) fn program(&self) -> &OperationProgram {
        &self.parts.program
    }

    /// The objects of its steps that this process holds.
    pub(crate) fn held(&self) -> &[Arc<HeldObject>] {
        &self.parts.held
    }

    /// The first bases or matrix that a step uses.
    pub(crate) fn first_object(&self) -> Option<[u8; 32]> {
        self.program().steps().iter().find_map(|step| match step {
            Operation::Msm(msm) => Some(msm.object_id),
            Operation::SparseProduct(product) => Some(product.object_id),
            _ => None,
        })
    }

    pub(crate) fn message(&self) -> &v1::Program {
        &self.parts.message
    }

    /// Bytes of [`Self::reference`], roughly.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.id.map_or_else(|| wire::encoded_bytes(self.message()), |id| id.len() as u64)
    }

    pub(crate) fn reference(&self) -> v1::ProgramRef {
        let program = match self.id {
            Some(id) => program_ref::Program::ProgramId(Bytes::copy_from_slice(&id)),
            None => program_ref::Program::Inline(self.message().clone()),
        };
        v1::ProgramRef { program: Some(program) }
    }
}

impl fmt::Debug for ClientProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientProgram({} steps)", self.steps())
    }
}
