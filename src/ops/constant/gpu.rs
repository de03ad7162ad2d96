//! Uploads the elements.

use std::sync::Arc;

use super::ConstantStep;
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ops::gpu::{self, GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for ConstantStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        Ok(context.gpu.constant(&gpu::fr_elements(&self.elements)?)?.into())
    }
}
