use capstan_math::{
    operation::Gf2EchelonStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for Gf2EchelonStep {
    type Message = v1::Gf2EchelonStep;

    fn decode(message: v1::Gf2EchelonStep) -> Result<Self, StepProblem> {
        let v1::Gf2EchelonStep { input, columns } = message;
        Ok(Self { input: ValueId(input), columns })
    }

    fn encode(&self) -> v1::Gf2EchelonStep {
        let Self { input, columns } = *self;
        v1::Gf2EchelonStep { input: input.0, columns }
    }
}
