//! Arithmetic of vectors on a GPU.

use crate::{
    engines::cuda::{GpuVector, GpuVectors},
    error::Result,
    ops::{PointwiseOperation, host::HostField},
};

/// Arithmetic of vectors over a field on a GPU. All work runs in order on the job's stream.
pub trait GpuArithmetic: HostField {
    /// Computes each element of `out`, which may be an input of the operation.
    fn pointwise(
        self,
        gpu: &GpuVectors,
        operation: PointwiseOperation,
        out: &GpuVector,
        inputs: &[&GpuVector],
    ) -> Result<()>;

    /// Makes `out`, which may be an input, the sum of the inputs times their factors.
    fn combine(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        factors: &[Self::Element],
        inputs: &[&GpuVector],
    ) -> Result<()>;

    /// Makes element i of `out` `first * base^i`.
    fn powers(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        first: Self::Element,
        base: Self::Element,
    ) -> Result<()>;

    /// Evaluates rows of coefficients at a point of the field.
    fn evaluate(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        coefficients: &GpuVector,
        point: Self::Element,
    ) -> Result<()>;
}
