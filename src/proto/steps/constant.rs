use capstan_math::{operation::ConstantStep, program::StepProblem};

use super::{StepMessage, named};
use crate::{parts::canonical, v1};

impl StepMessage for ConstantStep {
    type Message = v1::ConstantStep;

    fn decode(message: v1::ConstantStep) -> Result<Self, StepProblem> {
        let field = named::arithmetic_field(message.field)?;
        let width = field.element_bytes() as usize;
        let elements = named::constants("elements", &message.elements, width)?;
        Ok(Self { field, elements })
    }

    fn encode(&self) -> v1::ConstantStep {
        let (field, elements) = (v1::Field::from(self.field).into(), canonical(&self.elements));
        v1::ConstantStep { field, elements }
    }
}
