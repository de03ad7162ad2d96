use capstan_math::{operation::ConcatStep, program::StepProblem};

use super::StepMessage;
use crate::{
    parts::{indices, values},
    v1,
};

impl StepMessage for ConcatStep {
    type Message = v1::ConcatStep;

    fn decode(message: v1::ConcatStep) -> Result<Self, StepProblem> {
        Ok(Self { inputs: values(&message.inputs) })
    }

    fn encode(&self) -> v1::ConcatStep {
        v1::ConcatStep { inputs: indices(&self.inputs) }
    }
}
