use capstan_math::{operation::IntSumStep, program::StepProblem};

use super::StepMessage;
use crate::{
    parts::{indices, values},
    v1,
};

impl StepMessage for IntSumStep {
    type Message = v1::IntSumStep;

    fn decode(message: v1::IntSumStep) -> Result<Self, StepProblem> {
        let v1::IntSumStep { inputs, factors, length } = message;
        Ok(Self { inputs: values(&inputs), factors, length })
    }

    fn encode(&self) -> v1::IntSumStep {
        let Self { inputs, factors, length } = self;
        v1::IntSumStep { inputs: indices(inputs), factors: factors.clone(), length: *length }
    }
}
