//! One pass over all vectors, in place if an input is not read again.

use crate::{
    engines::EngineWork,
    error::Result,
    operation::LinearCombinationStep,
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep, StepTypes,
    },
};

impl AnyFieldStep for LinearCombinationStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let factors = self.factors.iter().map(|factor| field.constant(*factor));
        let factors = factors.collect::<Result<Vec<_>>>()?;
        let rows = host::map_elements(field, context, inputs, |at| {
            let terms = at.iter().zip(&factors);
            let terms = terms.map(|(element, factor)| field.multiply(element, *factor));
            terms.fold(F::Element::default(), |sum, term| field.add(sum, term))
        });
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for LinearCombinationStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(self.inputs.len() as u64)]
    }
}
