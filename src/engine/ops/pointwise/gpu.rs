//! Element-wise kernels, in place if an input is not read again.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::PointwiseStep,
    ops::gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
};

impl AnyFieldGpuStep for PointwiseStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        context.in_place(&inputs, |gpu, out| {
            let inputs: Vec<_> = inputs.iter().map(|vector| &**vector).collect();
            field.pointwise(gpu, self.operation, out, &inputs)
        })
    }
}

impl GpuStep for PointwiseStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
