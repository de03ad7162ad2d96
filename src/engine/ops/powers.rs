//! On the host, computes pieces of the powers, each from its first one; on a GPU, a few powers per
//! thread.

use std::sync::Arc;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    operation::PowersStep,
    ops::{
        gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyFieldStep for PowersStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let (base, first) = (field.constant(self.base)?, field.constant(self.first)?);
        let mut rows = host::zeros(context.shape()?, context.control)?;
        host::for_each_piece(&mut rows, context.control, |piece, elements| {
            let mut power = field.multiply(first, field.power(base, piece.first as u64));
            for element in elements {
                *element = power;
                power = field.multiply(power, base);
            }
        })?;
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for PowersStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.scan(1)]
    }
}

impl AnyFieldGpuStep for PowersStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        _: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let out = context.zeros()?;
        let [first, base] = [self.first, self.base].map(|constant| field.constant(constant));
        field.powers(context.gpu, &out, first?, base?)?;
        Ok(out.into())
    }
}

impl GpuStep for PowersStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
