//! Multiplies all elements by the inverse of the polynomial's value, on a GPU in place if the input
//! is not read again.

use std::sync::Arc;

use ark_ff::Field;

use crate::{
    curve::FrField,
    engines::{EngineWork, cuda::GpuVector},
    error::{Error, Result},
    ntt::VanishingPolynomial,
    operation::DivideByVanishingStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
    },
};

impl HostStep for DivideByVanishingStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let inverse = self.divisor().inverse();
        let inverse = inverse.ok_or_else(|| Error::Internal("the divisor is zero".into()))?;
        let rows = host::map_elements(FrField, context, inputs, |at| at.of(0) * inverse);
        Ok(HostResult::of_rows(FrField, rows?))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(1)]
    }
}

impl GpuStep for DivideByVanishingStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let vanishing = VanishingPolynomial::on_coset(self.lg_n, self.coset_generator)?;
        context.in_place(&inputs, |gpu, out| {
            let input = inputs[0].fr_elements()?;
            let out = out.fr_elements()?;
            Ok(gpu.kernels().divide(&gpu.stream, out, input, &vanishing)?)
        })
    }
}
