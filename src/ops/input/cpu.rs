//! Decodes and checks the elements.

use super::InputStep;
use crate::{
    engine::EngineWork,
    error::{Error, Result},
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for InputStep {
    fn run(&self, _: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let elements = context.input;
        let elements =
            elements.ok_or_else(|| Error::Internal("the step's input is missing".into()))?;
        let mut rows = host::zeros(context.shape()?, context.control)?;
        let mut first = 0;
        for row in rows.iter_mut() {
            elements.decode_elements(first, row, context.control)?;
            first += row.len();
        }
        Ok(rows.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.transfer()
    }
}
