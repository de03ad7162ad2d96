//! Copies the elements, on a GPU only if another step reads the input.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector, long_rows},
    error::Result,
    operation::ReshapeStep,
    ops::{
        gpu::{self, GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyVectorStep for ReshapeStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let given = input.rows(field)?;
        let of_given = given.first().map_or(0, Vec::len);
        let (shape, control) = (context.shape()?, context.control);
        let length = shape.length() as usize;
        let rows = host::rows_of(shape.rows() as usize, length, |row, out| {
            while out.len() < length {
                let at = row * length + out.len();
                let rest = &given[at / of_given][at % of_given..];
                let count = rest.len().min(length - out.len());
                long_rows::append(out, &rest[..count], control)?;
            }
            Ok(())
        });
        Ok(HostResult::of_rows(field, rows?))
    }
}

impl HostStep for ReshapeStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.pass(0)]
    }
}

impl GpuStep for ReshapeStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let shape = context.shape()?;
        let (rows, row_length) = (shape.rows() as usize, shape.length() as usize);
        let vector = match Arc::try_unwrap(gpu::only(inputs)?) {
            Ok(vector) => vector,
            Err(shared) => context.gpu.with_row_length(&shared, shared.row_length)?,
        };
        Ok(vector.reshaped(rows, row_length)?.into())
    }
}
