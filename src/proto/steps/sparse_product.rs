use bytes::Bytes;
use capstan_math::{
    operation::SparseProductStep,
    program::{StepProblem, ValueId},
};

use super::{StepMessage, named};
use crate::v1;

impl StepMessage for SparseProductStep {
    type Message = v1::SparseProductStep;

    fn decode(message: v1::SparseProductStep) -> Result<Self, StepProblem> {
        let v1::SparseProductStep { input, object_id, rows, terms } = message;
        let object_id = named::object_id(&object_id)?;
        Ok(Self { input: ValueId(input), object_id, rows, terms })
    }

    fn encode(&self) -> v1::SparseProductStep {
        let &Self { input, ref object_id, rows, terms } = self;
        let object_id = Bytes::copy_from_slice(object_id);
        v1::SparseProductStep { input: input.0, object_id, rows, terms }
    }
}
