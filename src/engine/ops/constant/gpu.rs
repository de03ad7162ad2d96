//! Uploads the elements.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::ConstantStep,
    ops::gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
};

impl AnyFieldGpuStep for ConstantStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        _: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let elements = self.elements.iter().map(|constant| field.constant(*constant));
        let elements = elements.collect::<Result<Vec<_>>>()?;
        Ok(context.gpu.constant(field, &elements)?.into())
    }
}

impl GpuStep for ConstantStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
