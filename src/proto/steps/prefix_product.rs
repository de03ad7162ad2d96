use capstan_math::{
    operation::PrefixProductStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for PrefixProductStep {
    type Message = v1::PrefixProductStep;

    fn decode(message: v1::PrefixProductStep) -> Result<Self, StepProblem> {
        Ok(Self { input: ValueId(message.input) })
    }

    fn encode(&self) -> v1::PrefixProductStep {
        v1::PrefixProductStep { input: self.input.0 }
    }
}
