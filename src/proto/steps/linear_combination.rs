use capstan_math::{operation::LinearCombinationStep, program::StepProblem};

use super::{StepMessage, named};
use crate::{
    parts::{canonical, indices, values},
    v1,
};

impl StepMessage for LinearCombinationStep {
    type Message = v1::LinearCombinationStep;

    fn decode(message: v1::LinearCombinationStep) -> Result<Self, StepProblem> {
        let v1::LinearCombinationStep { inputs, factors } = message;
        // One per input, so the width follows.
        let are_words = factors.len() == 4 * inputs.len();
        let factors = named::constants("factors", &factors, if are_words { 4 } else { 32 })?;
        Ok(Self { inputs: values(&inputs), factors })
    }

    fn encode(&self) -> v1::LinearCombinationStep {
        let (inputs, factors) = (indices(&self.inputs), canonical(&self.factors));
        v1::LinearCombinationStep { inputs, factors }
    }
}
