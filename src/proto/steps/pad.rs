use capstan_math::{
    operation::PadStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for PadStep {
    type Message = v1::PadStep;

    fn decode(message: v1::PadStep) -> Result<Self, StepProblem> {
        let v1::PadStep { input, length } = message;
        Ok(Self { input: ValueId(input), length })
    }

    fn encode(&self) -> v1::PadStep {
        let Self { input, length } = *self;
        v1::PadStep { input: input.0, length }
    }
}
