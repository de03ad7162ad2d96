//! Copies each row to a longer one.

use super::PadStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for PadStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let rows = host::padded(input.rows()?, self.length as usize, context.control);
        Ok(rows?.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.pass(0)
    }
}
