//! Copies the elements within the device, if another step reads the input.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::ReshapeStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep, only},
};

impl GpuStep for ReshapeStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let shape = context.shape()?;
        let (rows, row_length) = (shape.rows() as usize, shape.length() as usize);
        let vector = match Arc::try_unwrap(only(inputs)?) {
            Ok(vector) => vector,
            Err(shared) => context.gpu.with_row_length(&shared, shared.row_length)?,
        };
        Ok(vector.reshaped(rows, row_length)?.into())
    }
}
