//! Each launch computes further powers from those that earlier launches computed.

use std::sync::Arc;

use super::PowersStep;
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ops::gpu::{self, GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for PowersStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let out = context.zeros()?;
        let (kernels, stream) = (context.gpu.kernels(), &context.gpu.stream);
        kernels.powers(stream, out.fr_elements()?, gpu::fr(self.first)?, gpu::fr(self.base)?)?;
        Ok(out.into())
    }
}
