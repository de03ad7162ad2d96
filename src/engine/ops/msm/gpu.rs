//! Sums of vectors on the device, by the same passes as MSM calls.

use std::sync::Arc;

use super::sums::{CombinedSums, RowSums};
use crate::{
    curve::points::Bases,
    engines::cuda::{GpuVector, GpuVectors},
    error::{Error, Result},
    ntt::LinearTerm,
    operation::MsmStep,
    ops::{
        gpu::{GpuContext, GpuStep, GpuValue, LaunchedStep, PendingCheck, PendingSums, only},
        host::{EncodedRows, HostArgument},
    },
    program::ValueType,
    verify::RandomCombination,
};

impl GpuStep for MsmStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let GpuContext { gpu, bases, is_checked, value_type, input: encoded, .. } = context;
        let bases = bases.ok_or_else(|| Error::Internal("the step's bases are missing".into()))?;
        if let Some(elements) = encoded {
            let ValueType::Points(sums) = value_type else {
                return Err(Error::Internal("the step makes no points".into()));
            };
            let (rows, length) = (sums.count as usize, bases.len());
            return sum_encoded(gpu, bases, EncodedRows { elements, rows, length }, is_checked);
        }
        let input = only(inputs)?;
        let sums = gpu.launch_msm(bases, &input)?;
        let check = || -> Result<_> {
            let factors = RandomCombination::draw(input.rows)?;
            let terms = factors.factors().enumerate();
            let terms = terms.map(|(row, factor)| {
                let vector = input.fr_row(row)?;
                Ok(LinearTerm { factor, vector })
            });
            let terms = terms.collect::<Result<Vec<_>>>()?;
            let combination = gpu.zeros(input.field(), 1, input.row_length)?;
            let out = combination.fr_elements()?;
            gpu.kernels().linear_combination(&gpu.stream, out, &terms)?;
            Ok(PendingCheck { factors, combined: gpu.launch_msm(bases, &combination)? })
        };
        let check = is_checked.then(check).transpose()?;
        let value = GpuValue::Sums(PendingSums::Running { sums, check });
        Ok(LaunchedStep { value, method: String::new(), is_checked })
    }
}

/// Sums elements that no other step reads: they are passed to the engine as they are.
fn sum_encoded(
    gpu: &GpuVectors,
    bases: &Bases,
    encoded: EncodedRows<'_>,
    is_checked: bool,
) -> Result<LaunchedStep> {
    let engine = gpu.engine();
    let control = gpu.control();
    let rows = encoded.rows;
    let input = HostArgument::Encoded(encoded);
    let mut sums = RowSums::of_adjacent_rows(engine, bases, rows)?;
    while sums.absorb_next(&input, control)? {}
    let check = || -> Result<_> {
        let mut combined = CombinedSums::new(engine, bases, rows)?;
        while combined.absorb_next(&input, control)? {}
        let (factors, combined) = combined.into_run();
        Ok(PendingCheck { factors, combined })
    };
    let sums = sums.into_run();
    let check = is_checked.then(check).transpose()?;
    let value = GpuValue::Sums(PendingSums::Running { sums, check });
    Ok(LaunchedStep { value, method: String::new(), is_checked })
}
