//! Multiplies all elements by one factor, in place if the input is not read again.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::Result,
    ntt::VanishingPolynomial,
    operation::DivideByVanishingStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for DivideByVanishingStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let vanishing = VanishingPolynomial::on_coset(self.lg_n, self.coset_generator)?;
        context.in_place(&inputs, |gpu, out| {
            let (input, out) = (inputs[0].fr_elements()?, out.fr_elements()?);
            Ok(gpu.kernels().divide(&gpu.stream, out, input, &vanishing)?)
        })
    }
}
