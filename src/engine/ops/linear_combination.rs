//! One pass over all vectors, in place if an input is not read again.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    operation::LinearCombinationStep,
    ops::{
        gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
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

impl AnyFieldGpuStep for LinearCombinationStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let factors = self.factors.iter().map(|constant| field.constant(*constant));
        let factors = factors.collect::<Result<Vec<_>>>()?;
        context.in_place(&inputs, |gpu, out| {
            let inputs: Vec<_> = inputs.iter().map(|vector| &**vector).collect();
            field.combine(gpu, out, &factors, &inputs)
        })
    }
}

impl GpuStep for LinearCombinationStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
