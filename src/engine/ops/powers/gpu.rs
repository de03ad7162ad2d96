//! Computes a few powers per thread.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::PowersStep,
    ops::gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
};

impl AnyFieldGpuStep for PowersStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        _: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let out = context.zeros()?;
        let [first, base] = [self.first, self.base].map(|constant| field.constant(constant));
        field.powers(context.gpu, &out, first?, base?)?;
        Ok(out.into())
    }
}

impl GpuStep for PowersStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
