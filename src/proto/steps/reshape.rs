use capstan_math::{
    operation::ReshapeStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for ReshapeStep {
    type Message = v1::ReshapeStep;

    fn decode(message: v1::ReshapeStep) -> Result<Self, StepProblem> {
        let v1::ReshapeStep { input, rows } = message;
        Ok(Self { input: ValueId(input), rows })
    }

    fn encode(&self) -> v1::ReshapeStep {
        let Self { input, rows } = *self;
        v1::ReshapeStep { input: input.0, rows }
    }
}
