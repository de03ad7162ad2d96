//! Reduces each row level by level.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::EvaluateStep,
    ops::gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep, only},
};

impl AnyFieldGpuStep for EvaluateStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let (input, out) = (only(inputs)?, context.zeros()?);
        field.evaluate(context.gpu, &out, &input, field.constant(self.point)?)?;
        Ok(out.into())
    }
}

impl GpuStep for EvaluateStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
