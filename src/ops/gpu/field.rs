//! The fields that steps compute in on a GPU.

use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use super::{GpuContext, LaunchedStep};
use crate::{
    curve::{FrField, NttPlan},
    engine::cuda::{GpuVector, GpuVectors, TransformedVector},
    error::{Error, Result},
    field::{Field31, FieldId},
    ops::{PointwiseOperation, host::HostField},
};

/// A product of polynomials of one row length, modulo `X^n - shift^n` for n = 2^`lg_n`.
#[derive(Clone)]
pub struct GpuProductSpec<E> {
    pub lg_n: u32,
    /// `shift`; `None` for 1.
    pub coset: Option<E>,
    /// Coefficients of the result, at most n; it may get zeros up to n.
    pub length: usize,
}

/// A field that steps compute in on a GPU. All work runs in order on the job's stream.
pub trait GpuField: HostField {
    /// Points at which checks evaluate polynomials, and their values.
    type Point: Copy + PartialEq + Zeroize;

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

    /// Transforms rows. The memory of `vector` may become that of the result.
    ///
    /// Errors: `Corrupt` if `is_checked` and the check fails.
    fn transform_rows(
        self,
        gpu: &GpuVectors,
        plan: &NttPlan<Self::Element>,
        vector: GpuVector,
        is_checked: bool,
    ) -> Result<TransformedVector>;

    /// Multiplies rows of coefficients; squares `a` without `b`.
    fn multiply_polynomials(
        self,
        gpu: &GpuVectors,
        spec: &GpuProductSpec<Self::Element>,
        a: Arc<GpuVector>,
        b: Option<Arc<GpuVector>>,
    ) -> Result<TransformedVector>;

    /// A secret point for a check.
    fn random_point(self) -> Self::Point;

    /// The values at `point` of rows of coefficients. Waits for the device.
    fn values_at(
        self,
        gpu: &GpuVectors,
        vector: &GpuVector,
        point: &Self::Point,
    ) -> Result<Zeroizing<Vec<Self::Point>>>;

    /// `a b`.
    fn multiply_values(self, a: &Self::Point, b: &Self::Point) -> Self::Point;

    /// `value - (point^degree - constant) factor`, where the constant is 1, or -1 if
    /// `is_negacyclic`: what a value becomes when a multiple of `X^degree - constant` is dropped.
    fn without_multiple(
        self,
        value: &Self::Point,
        point: &Self::Point,
        degree: u64,
        is_negacyclic: bool,
        factor: &Self::Point,
    ) -> Self::Point;

    /// Drops twiddle tables, which may be damaged: a check has failed.
    fn evict_tables(self, gpu: &GpuVectors);
}

/// A kind of step that GPUs compute in any field that has arithmetic.
pub trait AnyFieldGpuStep {
    /// Like [`GpuStep::launch`](super::GpuStep::launch), in the field of the inputs and the value.
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep>;
}

/// Launches a step in the field of its value.
pub fn launch_in_any_field(
    step: &impl AnyFieldGpuStep,
    inputs: Vec<Arc<GpuVector>>,
    context: GpuContext<'_>,
) -> Result<LaunchedStep> {
    match context.shape()?.field() {
        FieldId::Bls12381Fr => step.launch_in(FrField, inputs, context),
        FieldId::Prime31(prime) => step.launch_in(Field31::new(prime), inputs, context),
        field @ (FieldId::Gf2 | FieldId::Integers) => {
            Err(Error::Internal(format!("the step does not compute over {field}")))
        }
    }
}
