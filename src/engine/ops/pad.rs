//! Copies each row to a longer one, on a GPU into zeros.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    operation::PadStep,
    ops::{
        gpu::{self, GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyVectorStep for PadStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let rows = host::padded(input.rows(field)?, self.length as usize, context.control);
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for PadStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(0)]
    }
}

impl GpuStep for PadStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let input = gpu::only(inputs)?;
        Ok(context.gpu.with_row_length(&input, self.length as usize)?.into())
    }
}
