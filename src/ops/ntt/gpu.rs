//! Transforms by the same passes as NTT calls.

use std::sync::Arc;

use super::NttStep;
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ops::gpu::{self, GpuContext, GpuStep, GpuValue, LaunchedStep, only},
};

impl GpuStep for NttStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let (n, is_checked) = (context.shape()?.length() as usize, context.is_checked);
        // The transform overwrites its input.
        let input = match Arc::try_unwrap(only(inputs)?) {
            Ok(input) if input.row_length == n => input,
            Ok(short) => context.gpu.with_row_length(&short, n)?,
            Err(shared) => context.gpu.with_row_length(&shared, n)?,
        };
        let coset = self.plan.coset.map(gpu::fr).transpose()?;
        let done = context.gpu.transform(&self.plan.with_coset(coset), input, is_checked)?;
        let value = GpuValue::Vector(Arc::new(done.vector));
        Ok(LaunchedStep { value, method: done.method, is_checked })
    }
}
