use capstan_math::{
    operation::SliceStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for SliceStep {
    type Message = v1::SliceStep;

    fn decode(message: v1::SliceStep) -> Result<Self, StepProblem> {
        let v1::SliceStep { input, offset, length } = message;
        Ok(Self { input: ValueId(input), offset, length })
    }

    fn encode(&self) -> v1::SliceStep {
        let Self { input, offset, length } = *self;
        v1::SliceStep { input: input.0, offset, length }
    }
}
