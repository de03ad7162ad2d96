use capstan_math::{operation::InputStep, program::StepProblem};

use super::{StepMessage, named};
use crate::v1;

impl StepMessage for InputStep {
    type Message = v1::InputStep;

    fn decode(message: v1::InputStep) -> Result<Self, StepProblem> {
        let v1::InputStep { field, rows, length } = message;
        Ok(Self { field: named::field(field)?, rows: rows.max(1), length })
    }

    fn encode(&self) -> v1::InputStep {
        let Self { field, rows, length } = *self;
        v1::InputStep { field: v1::Field::from(field).into(), rows, length }
    }
}
