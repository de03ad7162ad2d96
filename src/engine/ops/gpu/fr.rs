//! Fr on a GPU.

use std::sync::Arc;

use ark_ff::Field;
use zeroize::Zeroizing;

use super::{
    arithmetic::GpuArithmetic,
    field::{GpuField, GpuProductSpec},
};
use crate::{
    curve::{Fr, FrField, NttPlan, scalars::random_point},
    engines::cuda::{GpuVector, GpuVectors, TransformedVector},
    error::{Error, Result},
    ntt::LinearTerm,
    ops::PointwiseOperation,
};

impl GpuArithmetic for FrField {
    fn pointwise(
        self,
        gpu: &GpuVectors,
        operation: PointwiseOperation,
        out: &GpuVector,
        inputs: &[&GpuVector],
    ) -> Result<()> {
        use PointwiseOperation as Kind;
        let kernels = gpu.kernels();
        let stream = &gpu.stream;
        let out = out.fr_elements()?;
        let inputs = inputs.iter().map(|vector| vector.fr_elements());
        match (operation, inputs.collect::<Result<Vec<_>>>()?.as_slice()) {
            (Kind::Add, &[a, b]) => kernels.add(stream, out, a, b)?,
            (Kind::Subtract, &[a, b]) => kernels.subtract(stream, out, a, b)?,
            (Kind::Multiply, &[a, b]) => kernels.multiply(stream, out, a, b)?,
            (Kind::MultiplyAdd, &[a, b, c]) => {
                kernels.rows.multiply_add(stream, out, [a, b, c])?;
            }
            (Kind::MultiplySubtract, &[a, b, c]) => {
                kernels.rows.multiply_subtract(stream, out, [a, b, c])?;
            }
            (Kind::Invert, &[a]) => kernels.invert(stream, out, a)?,
            _ => return Err(Error::Internal("an operation has too few inputs".into())),
        }
        Ok(())
    }

    fn combine(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        factors: &[Fr],
        inputs: &[&GpuVector],
    ) -> Result<()> {
        let terms = factors.iter().zip(inputs).map(|(&factor, vector)| {
            let vector = vector.fr_elements()?;
            Ok(LinearTerm { factor, vector })
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok(gpu.kernels().linear_combination(&gpu.stream, out.fr_elements()?, &terms)?)
    }

    fn powers(self, gpu: &GpuVectors, out: &GpuVector, first: Fr, base: Fr) -> Result<()> {
        Ok(gpu.kernels().powers(&gpu.stream, out.fr_elements()?, first, base)?)
    }

    fn evaluate(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        coefficients: &GpuVector,
        point: Fr,
    ) -> Result<()> {
        let values = out.fr_elements()?;
        let coefficients = coefficients.fr_elements()?;
        Ok(gpu.kernels().evaluate(&gpu.stream, values, coefficients, point)?)
    }
}

impl GpuField for FrField {
    type Point = Fr;

    fn transform_rows(
        self,
        gpu: &GpuVectors,
        plan: &NttPlan,
        vector: GpuVector,
        is_checked: bool,
    ) -> Result<TransformedVector> {
        gpu.transform(plan, vector, is_checked)
    }

    /// Multiplies values between a transform to bit-reversed order and one from it, so that no pass
    /// only reorders.
    fn multiply_polynomials(
        self,
        gpu: &GpuVectors,
        spec: &GpuProductSpec<Fr>,
        a: Arc<GpuVector>,
        b: Option<Arc<GpuVector>>,
    ) -> Result<TransformedVector> {
        let &GpuProductSpec { lg_n, coset, .. } = spec;
        let forward =
            NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: true };
        let inverse =
            NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..forward };
        let transformed = |vector: Arc<GpuVector>| {
            let n = 1 << lg_n;
            // The transform overwrites a vector that nothing else reads.
            let vector = match Arc::try_unwrap(vector) {
                Ok(own) if own.row_length == n => own,
                Ok(own) => gpu.with_row_length(&own, n)?,
                Err(shared) => gpu.with_row_length(&shared, n)?,
            };
            Ok::<_, Error>(gpu.transform(&forward, vector, false)?.vector)
        };
        let left = transformed(a)?;
        let right = b.map(transformed).transpose()?;
        let out = left.fr_elements()?;
        let right = right.as_ref().unwrap_or(&left).fr_elements()?;
        gpu.kernels().multiply(&gpu.stream, out, out, right)?;
        gpu.transform(&inverse, left, false)
    }

    fn random_point(self) -> Fr {
        *random_point()
    }

    fn values_at(
        self,
        gpu: &GpuVectors,
        vector: &GpuVector,
        point: &Fr,
    ) -> Result<Zeroizing<Vec<Fr>>> {
        gpu.values_at(vector, *point)
    }

    fn multiply_values(self, a: &Fr, b: &Fr) -> Fr {
        *a * b
    }

    fn subtract_product(self, a: &Fr, b: &Fr, c: &Fr) -> Fr {
        *a - *b * c
    }

    fn value_of_modulus(self, point: &Fr, degree: u64, is_negacyclic: bool) -> Fr {
        point.pow([degree]) - Fr::from(if is_negacyclic { -1 } else { 1 })
    }

    fn evict_tables(self, gpu: &GpuVectors) {
        gpu.evict_twiddle_tables();
    }
}
