//! Copies the inputs of each row one after another.

use super::ConcatStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for ConcatStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let mut rows = host::zeros(context.shape()?);
        for (row, out) in rows.iter_mut().enumerate() {
            let mut rest = out.as_mut_slice();
            for input in &inputs {
                let part = &input.rows()?[row];
                let (out, after) = rest.split_at_mut(part.len());
                out.copy_from_slice(part);
                rest = after;
            }
        }
        Ok(rows.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.pass(0)
    }
}
