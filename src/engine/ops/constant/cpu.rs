//! Copies the elements.

use zeroize::Zeroizing;

use crate::{
    engines::EngineWork,
    error::Result,
    operation::ConstantStep,
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep, StepTypes,
    },
};

impl AnyFieldStep for ConstantStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        _: &HostContext<'_>,
    ) -> Result<HostResult> {
        let elements = self.elements.iter().map(|element| field.constant(*element));
        let row = elements.collect::<Result<_>>()?;
        Ok(HostResult::of_rows(field, Zeroizing::new(vec![row])))
    }
}

impl HostStep for ConstantStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.transfer()]
    }
}
