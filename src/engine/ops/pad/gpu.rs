//! Copies the rows into zeros.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::PadStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep, only},
};

impl GpuStep for PadStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let input = only(inputs)?;
        Ok(context.gpu.with_row_length(&input, self.length as usize)?.into())
    }
}
