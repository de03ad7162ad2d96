//! One pass over all limbs, on a GPU followed by one over the carries between tiles.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    engines::{EngineWork, cuda::GpuVector},
    error::Result,
    field::IntegerLimbs,
    integers::{self, SumTerm},
    operation::IntSumStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
    },
    program::ValueType,
};

impl HostStep for IntSumStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let mut out = host::zeros(context.shape()?, context.control)?;
        let inputs = inputs.iter().map(|input| input.rows(IntegerLimbs));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        out.par_iter_mut().enumerate().try_for_each(|(row, out)| {
            let terms = inputs.iter().zip(&self.factors);
            let terms = terms.map(|(rows, &factor)| SumTerm { limbs: &rows[row], factor });
            integers::set_sum(&terms.collect::<Vec<_>>(), out, context.control)
        })?;
        Ok(HostResult::of_rows(IntegerLimbs, out))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.scan(self.inputs.len() as u64)]
    }

    fn device_scratch_bytes(&self, inputs: &[ValueType]) -> u64 {
        let Some(ValueType::Vector(shape)) = inputs.first() else { return 0 };
        let rows = u64::from(shape.rows());
        // If rows are not whole quads, they are copied to their places.
        let is_copied = rows > 1 && !self.length.is_multiple_of(4);
        let copied = if is_copied { 4 * self.length.next_multiple_of(4) } else { 0 };
        // Flags and carries of tiles.
        rows * (copied + self.length / 1024 + 8)
    }
}

impl GpuStep for IntSumStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let terms = inputs.iter().zip(&self.factors);
        let terms: Vec<_> = terms.map(|(vector, &factor)| (&**vector, factor)).collect();
        let length = context.shape()?.length() as usize;
        Ok(context.gpu.sum_integers(&terms, length)?.into())
    }
}
