//! One or two launches for each row.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::{Error, Result},
    operation::SparseProductStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep, only},
};

impl GpuStep for SparseProductStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let matrix = context.matrix;
        let matrix =
            matrix.ok_or_else(|| Error::Internal("the step's matrix is missing".into()))?;
        let input = only(inputs)?;
        Ok(context.gpu.multiply_sparse(matrix, &input)?.into())
    }
}
