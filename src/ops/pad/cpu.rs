//! Copies each row to a longer one.

use super::PadStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for PadStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, _: &HostContext<'_>) -> Result<HostResult> {
        Ok(host::padded(host::only(inputs)?.rows()?, self.length as usize).into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.pass(0)
    }
}
