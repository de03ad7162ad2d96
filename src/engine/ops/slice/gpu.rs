//! Copies the elements within the device.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::SliceStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep, only},
};

impl GpuStep for SliceStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let (input, out) = (only(inputs)?, context.zeros()?);
        context.gpu.copy_rows(&out, 0, &input, self.offset as usize, self.length as usize)?;
        Ok(out.into())
    }
}
