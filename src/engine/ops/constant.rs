//! Copies the elements, or uploads them to a GPU.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    operation::ConstantStep,
    ops::{
        gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyFieldStep for ConstantStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        _: &HostContext<'_>,
    ) -> Result<HostResult> {
        let elements = self.elements.iter().map(|element| field.constant(*element));
        let row = elements.collect::<Result<_>>()?;
        Ok(HostResult::of_rows(field, Zeroizing::new(vec![row])))
    }
}

impl HostStep for ConstantStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.transfer()]
    }
}

impl AnyFieldGpuStep for ConstantStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        _: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let elements = self.elements.iter().map(|constant| field.constant(*constant));
        let elements = elements.collect::<Result<Vec<_>>>()?;
        Ok(context.gpu.constant(field, &elements)?.into())
    }
}

impl GpuStep for ConstantStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
