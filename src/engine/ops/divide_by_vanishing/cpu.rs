//! Multiplies by the inverse of the polynomial's value, the same for all elements.

use ark_ff::Field;

use crate::{
    curve::FrField,
    engines::EngineWork,
    error::{Error, Result},
    operation::DivideByVanishingStep,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for DivideByVanishingStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let inverse = self.divisor().inverse();
        let inverse = inverse.ok_or_else(|| Error::Internal("the divisor is zero".into()))?;
        let rows = host::map_elements(FrField, context, inputs, |at| at.of(0) * inverse);
        Ok(HostResult::of_rows(FrField, rows?))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(1)]
    }
}
