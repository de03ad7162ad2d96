use capstan_math::{operation::IntMulStep, program::StepProblem};

use super::StepMessage;
use crate::{
    parts::{indices, values},
    v1,
};

impl StepMessage for IntMulStep {
    type Message = v1::IntMulStep;

    fn decode(message: v1::IntMulStep) -> Result<Self, StepProblem> {
        Ok(Self { inputs: values(&message.inputs) })
    }

    fn encode(&self) -> v1::IntMulStep {
        v1::IntMulStep { inputs: indices(&self.inputs) }
    }
}
