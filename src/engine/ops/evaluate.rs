//! On the host, evaluates pieces of each row by Horner's rule, and adds their values; a GPU reduces
//! each row level by level.

use std::sync::Arc;

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    operation::EvaluateStep,
    ops::{
        gpu::{self, AnyFieldGpuStep, GpuContext, GpuField, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
    },
};

impl AnyFieldStep for EvaluateStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let point = field.constant(self.point)?;
        let value = |row: &Vec<F::Element>| host::evaluate(field, row, point, context.control);
        let rows = input.rows(field)?.par_iter().map(|row| value(row).map(|value| vec![value]));
        let rows = Zeroizing::new(rows.collect::<Result<Vec<_>>>()?);
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for EvaluateStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.scan(1)]
    }
}

impl AnyFieldGpuStep for EvaluateStep {
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
        let input = gpu::only(inputs)?;
        let out = context.zeros()?;
        field.evaluate(context.gpu, &out, &input, field.constant(self.point)?)?;
        Ok(out.into())
    }
}

impl GpuStep for EvaluateStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}
