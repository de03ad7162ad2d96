//! The fields that steps compute in on a GPU.

use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use super::arithmetic::GpuArithmetic;
use crate::{
    curve::NttPlan,
    engines::cuda::{GpuVector, GpuVectors, TransformedVector},
    error::Result,
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

/// A field that steps compute in on a GPU: transforms, products of polynomials, and their checks.
pub trait GpuField: GpuArithmetic {
    /// Points at which checks evaluate polynomials, and their values.
    type Point: Copy + PartialEq + Zeroize;

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

    /// `a - b c`.
    fn subtract_product(self, a: &Self::Point, b: &Self::Point, c: &Self::Point) -> Self::Point;

    /// The value at `point` of `X^degree - 1`, or of `X^degree + 1` if `is_negacyclic`.
    fn value_of_modulus(self, point: &Self::Point, degree: u64, is_negacyclic: bool)
    -> Self::Point;

    /// Drops twiddle tables, which may be damaged: a check has failed.
    fn evict_tables(self, gpu: &GpuVectors);
}
