//! Element-wise kernels, in place if an input is not read again.

use std::sync::Arc;

use super::{PointwiseOperation, PointwiseStep};
use crate::{
    engine::cuda::GpuVector,
    error::Result,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for PointwiseStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        use PointwiseOperation as Kind;
        context.in_place(&inputs, |gpu, inputs, out| {
            let (kernels, stream) = (gpu.kernels(), &gpu.stream);
            match (self.operation, inputs) {
                (Kind::Add, &[a, b]) => kernels.add(stream, out, a, b),
                (Kind::Subtract, &[a, b]) => kernels.subtract(stream, out, a, b),
                (Kind::Multiply, &[a, b]) => kernels.multiply(stream, out, a, b),
                (Kind::MultiplyAdd, &[a, b, c]) => {
                    kernels.rows.multiply_add(stream, out, [a, b, c])
                }
                (Kind::MultiplySubtract, &[a, b, c]) => {
                    kernels.rows.multiply_subtract(stream, out, [a, b, c])
                }
                (Kind::Invert, &[a]) => kernels.invert(stream, out, a),
                _ => unreachable!("validation has checked the number of inputs"),
            }
        })
    }
}
