//! Sums of vectors on the device, by the same passes as MSM calls.

use std::sync::Arc;

use super::MsmStep;
use crate::{
    engine::cuda::GpuVector,
    error::{Error, Result},
    ntt::LinearTerm,
    ops::gpu::{GpuContext, GpuStep, GpuValue, LaunchedStep, PendingCheck, PendingSums, only},
    verify::RandomCombination,
};

impl GpuStep for MsmStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let GpuContext { gpu, bases, is_checked, .. } = context;
        let bases = bases.ok_or_else(|| Error::Internal("the step's bases are missing".into()))?;
        let input = only(inputs)?;
        let sums = gpu.launch_msm(bases, &input)?;
        let check = || -> Result<_> {
            let factors = RandomCombination::draw(input.rows)?;
            let terms = factors.factors().enumerate();
            let terms: Vec<_> =
                terms.map(|(row, factor)| LinearTerm { factor, vector: input.row(row) }).collect();
            let combination = gpu.zeros(1, input.row_length)?;
            gpu.kernels().linear_combination(&gpu.stream, combination.elements(), &terms)?;
            Ok(PendingCheck { factors, combined: gpu.launch_msm(bases, &combination)? })
        };
        let check = is_checked.then(check).transpose()?;
        let value = GpuValue::Sums(PendingSums::Running { sums, check });
        Ok(LaunchedStep { value, method: String::new(), is_checked })
    }
}
