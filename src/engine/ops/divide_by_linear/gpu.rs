//! A scan of Horner values, in place if the input is not read again.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    operation::DivideByLinearStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for DivideByLinearStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        context.in_place(&inputs, |gpu, out| {
            let (input, rows) = (inputs[0].fr_elements()?, inputs[0].rows);
            let (kernels, out) = (gpu.kernels(), out.fr_elements()?);
            Ok(kernels.divide_by_linear(&gpu.stream, out, input, rows, self.point)?)
        })
    }
}
