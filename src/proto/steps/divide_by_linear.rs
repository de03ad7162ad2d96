use capstan_math::{
    operation::DivideByLinearStep,
    program::{StepProblem, ValueId},
};

use super::{StepMessage, named};
use crate::{parts::canonical, v1};

impl StepMessage for DivideByLinearStep {
    type Message = v1::DivideByLinearStep;

    fn decode(message: v1::DivideByLinearStep) -> Result<Self, StepProblem> {
        let v1::DivideByLinearStep { input, point } = message;
        Ok(Self { input: ValueId(input), point: named::element("point", &point)? })
    }

    fn encode(&self) -> v1::DivideByLinearStep {
        v1::DivideByLinearStep { input: self.input.0, point: canonical(&[self.point.into()]) }
    }
}
