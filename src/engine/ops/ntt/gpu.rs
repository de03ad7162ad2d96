//! Transforms by the same passes as NTT calls.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::NttStep,
    ops::gpu::{
        self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, GpuValue, LaunchedStep, only,
    },
};

impl AnyFieldGpuStep for NttStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let n = context.shape()?.length() as usize;
        let is_checked = context.is_checked;
        // The transform overwrites its input.
        let input = match Arc::try_unwrap(only(inputs)?) {
            Ok(input) if input.row_length == n => input,
            Ok(short) => context.gpu.with_row_length(&short, n)?,
            Err(shared) => context.gpu.with_row_length(&shared, n)?,
        };
        let plan = field.plan(self.plan)?;
        let done = field.transform_rows(context.gpu, &plan, input, is_checked)?;
        let value = GpuValue::Vector(Arc::new(done.vector));
        Ok(LaunchedStep { value, method: done.method, is_checked })
    }
}

impl GpuStep for NttStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
