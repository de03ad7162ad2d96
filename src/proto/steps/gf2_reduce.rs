use capstan_math::{
    operation::Gf2ReduceStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::v1;

impl StepMessage for Gf2ReduceStep {
    type Message = v1::Gf2ReduceStep;

    fn decode(message: v1::Gf2ReduceStep) -> Result<Self, StepProblem> {
        let v1::Gf2ReduceStep { pivots, rows, columns } = message;
        Ok(Self { inputs: [pivots, rows].map(ValueId), columns })
    }

    fn encode(&self) -> v1::Gf2ReduceStep {
        let Self { inputs: [pivots, rows], columns } = *self;
        v1::Gf2ReduceStep { pivots: pivots.0, rows: rows.0, columns }
    }
}
