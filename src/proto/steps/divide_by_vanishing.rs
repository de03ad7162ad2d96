use capstan_math::{
    operation::DivideByVanishingStep,
    program::{StepProblem, ValueId},
};

use super::{StepMessage, named};
use crate::{parts::canonical, v1};

impl StepMessage for DivideByVanishingStep {
    type Message = v1::DivideByVanishingStep;

    fn decode(message: v1::DivideByVanishingStep) -> Result<Self, StepProblem> {
        let v1::DivideByVanishingStep { input, lg_n, coset_generator } = message;
        let coset_generator = named::element("coset_generator", &coset_generator)?;
        Ok(Self { input: ValueId(input), lg_n, coset_generator })
    }

    fn encode(&self) -> v1::DivideByVanishingStep {
        let Self { input, lg_n, coset_generator } = *self;
        let coset_generator = canonical(&[coset_generator.into()]);
        v1::DivideByVanishingStep { input: input.0, lg_n, coset_generator }
    }
}
