//! Copies the inputs of each row one after another, on a GPU within the device.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector, long_rows},
    error::Result,
    operation::ConcatStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyVectorStep for ConcatStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let shape = context.shape()?;
        let rows = host::rows_of(shape.rows() as usize, shape.length() as usize, |row, out| {
            inputs.iter().try_for_each(|input| {
                long_rows::append(out, &input.rows(field)?[row], context.control)
            })
        });
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for ConcatStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(0)]
    }
}

impl GpuStep for ConcatStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let out = context.zeros()?;
        let mut at = 0;
        for input in inputs {
            context.gpu.copy_rows(&out, at, &input, 0, input.row_length)?;
            at += input.row_length;
        }
        Ok(out.into())
    }
}
