//! Copies the elements.

use zeroize::Zeroizing;

use super::ConstantStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for ConstantStep {
    fn run(&self, _: Vec<HostArgument<'_>>, _: &HostContext<'_>) -> Result<HostResult> {
        Ok(Zeroizing::new(vec![self.elements.clone()]).into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.transfer()
    }
}
