//! One pass over all vectors, in place if an input is not read again.

use std::sync::Arc;

use super::LinearCombinationStep;
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ntt::LinearTerm,
    ops::gpu::{self, GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for LinearCombinationStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let factors = gpu::fr_elements(&self.factors)?;
        context.in_place(&inputs, |gpu, inputs, out| {
            let terms = factors.iter().zip(inputs);
            let terms: Vec<_> =
                terms.map(|(&factor, &vector)| LinearTerm { factor, vector }).collect();
            gpu.kernels().linear_combination(&gpu.stream, out, &terms)
        })
    }
}
