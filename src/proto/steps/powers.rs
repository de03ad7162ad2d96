use capstan_math::{
    operation::PowersStep,
    program::{Constant, StepProblem},
};

use super::{StepMessage, named};
use crate::{parts::canonical, v1};

impl StepMessage for PowersStep {
    type Message = v1::PowersStep;

    fn decode(message: v1::PowersStep) -> Result<Self, StepProblem> {
        let field = named::arithmetic_field(message.field)?;
        let first = match &message.first[..] {
            [] => Constant::one(field),
            first => named::constant("first", first)?,
        };
        let base = named::constant("base", &message.base)?;
        Ok(Self { field, base, first, length: message.length })
    }

    fn encode(&self) -> v1::PowersStep {
        let Self { field, base, first, length } = *self;
        let [base, first] = [base, first].map(|constant| canonical(&[constant]));
        v1::PowersStep { field: v1::Field::from(field).into(), base, first, length }
    }
}
