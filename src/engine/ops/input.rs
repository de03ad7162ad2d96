//! Decodes and checks the elements, on a GPU after their upload.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::{Error, Result},
    operation::InputStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyVectorStep for InputStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let elements = context.input;
        let elements =
            elements.ok_or_else(|| Error::Internal("the step's input is missing".into()))?;
        let mut rows = host::zeros(context.shape()?, context.control)?;
        let mut first = 0;
        for row in rows.iter_mut() {
            elements.decode_elements(field, first, row, context.control)?;
            first += row.len();
        }
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for InputStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.transfer()]
    }
}

impl GpuStep for InputStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let missing = || Error::Internal("the step's input is missing".into());
        let shape = context.shape()?;
        let elements = context.input.ok_or_else(missing)?;
        let (rows, length) = (shape.rows() as usize, shape.length() as usize);
        Ok(context.gpu.upload(&elements, shape.field(), rows, length)?.into())
    }
}
