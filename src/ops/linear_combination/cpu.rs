//! One pass over all vectors, in place if an input is not read again.

use super::LinearCombinationStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for LinearCombinationStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let rows = host::map_elements(context, inputs, |at| {
            at.iter().zip(&self.factors).map(|(element, factor)| element * factor).sum()
        });
        Ok(rows?.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.pass(self.inputs.len() as u64)
    }
}
