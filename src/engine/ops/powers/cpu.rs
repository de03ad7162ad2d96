//! Computes pieces of the powers, each from its first one.

use crate::{
    engines::EngineWork,
    error::Result,
    operation::PowersStep,
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep, StepTypes,
    },
};

impl AnyFieldStep for PowersStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let (base, first) = (field.constant(self.base)?, field.constant(self.first)?);
        let mut rows = host::zeros(context.shape()?, context.control)?;
        host::for_each_piece(&mut rows, context.control, |piece, elements| {
            let mut power = field.multiply(first, field.power(base, piece.first as u64));
            for element in elements {
                *element = power;
                power = field.multiply(power, base);
            }
        })?;
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for PowersStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.scan(1)]
    }
}
