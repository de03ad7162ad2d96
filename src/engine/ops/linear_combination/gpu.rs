//! One pass over all vectors, in place if an input is not read again.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::LinearCombinationStep,
    ops::gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
};

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
