use capstan_math::{
    operation::{PointwiseOperation, PointwiseStep},
    program::StepProblem,
};

use super::StepMessage;
use crate::{
    enums::specified,
    parts::{indices, values},
    v1,
};

impl StepMessage for PointwiseStep {
    type Message = v1::PointwiseStep;

    fn decode(message: v1::PointwiseStep) -> Result<Self, StepProblem> {
        let operation = specified(message.operation)
            .and_then(|known: v1::PointwiseOperation| PointwiseOperation::try_from(known));
        let operation = operation.map_err(|problem| StepProblem::field("operation", problem))?;
        Ok(Self { operation, inputs: values(&message.inputs) })
    }

    fn encode(&self) -> v1::PointwiseStep {
        let operation = v1::PointwiseOperation::from(self.operation).into();
        v1::PointwiseStep { operation, inputs: indices(&self.inputs) }
    }
}
