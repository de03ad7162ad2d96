use capstan_math::{
    operation::EvaluateStep,
    program::{StepProblem, ValueId},
};

use super::{StepMessage, named};
use crate::{parts::canonical, v1};

impl StepMessage for EvaluateStep {
    type Message = v1::EvaluateStep;

    fn decode(message: v1::EvaluateStep) -> Result<Self, StepProblem> {
        let v1::EvaluateStep { input, point } = message;
        Ok(Self { input: ValueId(input), point: named::constant("point", &point)? })
    }

    fn encode(&self) -> v1::EvaluateStep {
        v1::EvaluateStep { input: self.input.0, point: canonical(&[self.point]) }
    }
}
