use capstan_math::{
    operation::{PolyMulStep, PolyReduction},
    program::StepProblem,
};

use super::StepMessage;
use crate::{
    parts::{indices, values},
    v1::{self, poly_mul_step::Reduction},
};

impl StepMessage for PolyMulStep {
    type Message = v1::PolyMulStep;

    fn decode(message: v1::PolyMulStep) -> Result<Self, StepProblem> {
        let reduction = match message.reduction {
            None => PolyReduction::None,
            Some(Reduction::Cyclic(n)) => PolyReduction::Cyclic(n),
            Some(Reduction::Negacyclic(n)) => PolyReduction::Negacyclic(n),
        };
        Ok(Self { inputs: values(&message.inputs), reduction })
    }

    fn encode(&self) -> v1::PolyMulStep {
        let reduction = match self.reduction {
            PolyReduction::None => None,
            PolyReduction::Cyclic(n) => Some(Reduction::Cyclic(n)),
            PolyReduction::Negacyclic(n) => Some(Reduction::Negacyclic(n)),
        };
        v1::PolyMulStep { inputs: indices(&self.inputs), reduction }
    }
}
