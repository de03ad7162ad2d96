//! Reduces each row level by level.

use std::sync::Arc;

use super::EvaluateStep;
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ops::gpu::{self, GpuContext, GpuStep, LaunchedStep, only},
};

impl GpuStep for EvaluateStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let (input, out) = (only(inputs)?, context.zeros()?);
        let (kernels, stream) = (context.gpu.kernels(), &context.gpu.stream);
        let (values, elements) = (out.fr_elements()?, input.fr_elements()?);
        kernels.evaluate(stream, values, elements, gpu::fr(self.point)?)?;
        Ok(out.into())
    }
}
