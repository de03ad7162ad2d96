//! One pass over all limbs, and one over the carries between tiles.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::IntSumStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for IntSumStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let terms = inputs.iter().zip(&self.factors);
        let terms: Vec<_> = terms.map(|(vector, &factor)| (&**vector, factor)).collect();
        let length = context.shape()?.length() as usize;
        Ok(context.gpu.sum_integers(&terms, length)?.into())
    }
}
