//! Copies the range of each row, on a GPU within the device.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector, long_rows},
    error::Result,
    operation::SliceStep,
    ops::{
        gpu::{self, GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyVectorStep for SliceStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let (start, length) = (self.offset as usize, self.length as usize);
        let input = host::only(inputs)?;
        let given = input.rows(field)?;
        let rows = host::rows_of(given.len(), length, |row, out| {
            long_rows::append(out, &given[row][start..start + length], context.control)
        });
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for SliceStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        // The copied range is read, too.
        vec![StepTypes { inputs: &[types.value], ..*types }.pass(0)]
    }
}

impl GpuStep for SliceStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let input = gpu::only(inputs)?;
        let out = context.zeros()?;
        context.gpu.copy_rows(&out, 0, &input, self.offset as usize, self.length as usize)?;
        Ok(out.into())
    }
}
