//! Fields of 31-bit primes on a GPU.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{
    arithmetic::GpuArithmetic,
    field::{GpuField, GpuProductSpec},
};
use crate::{
    curve::NttPlan,
    engines::cuda::{GpuVector, GpuVectors, TransformedVector},
    error::{Error, Result},
    field::{Arithmetic, Element31, Extension, ExtensionField, Field31},
    ntt31::{EvaluatedRows, LinearTerm31, WordOperation},
    ops::PointwiseOperation,
};

impl GpuArithmetic for Field31 {
    fn pointwise(
        self,
        gpu: &GpuVectors,
        operation: PointwiseOperation,
        out: &GpuVector,
        inputs: &[&GpuVector],
    ) -> Result<()> {
        use PointwiseOperation as Kind;
        let inputs = inputs.iter().map(|vector| vector.words());
        let operation = match (operation, inputs.collect::<Result<Vec<_>>>()?.as_slice()) {
            (Kind::Add, &[a, b]) => WordOperation::Add([a, b]),
            (Kind::Subtract, &[a, b]) => WordOperation::Subtract([a, b]),
            (Kind::Multiply, &[a, b]) => WordOperation::Multiply([a, b]),
            (Kind::MultiplyAdd, &[a, b, c]) => WordOperation::MultiplyAdd([a, b, c]),
            (Kind::MultiplySubtract, &[a, b, c]) => WordOperation::MultiplySubtract([a, b, c]),
            (Kind::Invert, &[a]) => WordOperation::Invert(a),
            _ => return Err(Error::Internal("an operation has too few inputs".into())),
        };
        Ok(gpu.kernels31().pointwise(&gpu.stream, self, out.words()?, operation)?)
    }

    fn combine(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        factors: &[Element31],
        inputs: &[&GpuVector],
    ) -> Result<()> {
        let terms = factors.iter().zip(inputs).map(|(&factor, vector)| {
            let vector = vector.words()?;
            Ok(LinearTerm31 { factor, vector })
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok(gpu.kernels31().linear_combination(&gpu.stream, self, out.words()?, &terms)?)
    }

    fn powers(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        first: Element31,
        base: Element31,
    ) -> Result<()> {
        Ok(gpu.kernels31().powers(&gpu.stream, self, out.words()?, first, base)?)
    }

    fn evaluate(
        self,
        gpu: &GpuVectors,
        out: &GpuVector,
        coefficients: &GpuVector,
        point: Element31,
    ) -> Result<()> {
        let (words, rows) = (coefficients.words()?, coefficients.rows);
        let rows = EvaluatedRows { words, rows, lg_reversed: None };
        let evaluator = &gpu.kernels31().evaluator;
        Ok(evaluator.evaluate(&gpu.stream, self, out.words()?, rows, point)?)
    }
}

impl GpuField for Field31 {
    type Point = Extension;

    fn transform_rows(
        self,
        gpu: &GpuVectors,
        plan: &NttPlan<Element31>,
        vector: GpuVector,
        is_checked: bool,
    ) -> Result<TransformedVector> {
        gpu.transform31(self, plan, vector, is_checked)
    }

    fn multiply_polynomials(
        self,
        gpu: &GpuVectors,
        spec: &GpuProductSpec<Element31>,
        a: Arc<GpuVector>,
        b: Option<Arc<GpuVector>>,
    ) -> Result<TransformedVector> {
        let &GpuProductSpec { lg_n, coset, length } = spec;
        gpu.multiply31(self, lg_n, coset, (&a, b.as_deref()), length)
    }

    fn random_point(self) -> Extension {
        ExtensionField::new(self).random_point()
    }

    fn values_at(
        self,
        gpu: &GpuVectors,
        vector: &GpuVector,
        point: &Extension,
    ) -> Result<Zeroizing<Vec<Extension>>> {
        gpu.values_in_extension(vector, ExtensionField::new(self), point)
    }

    fn multiply_values(self, a: &Extension, b: &Extension) -> Extension {
        ExtensionField::new(self).multiply(a, b)
    }

    fn subtract_product(self, a: &Extension, b: &Extension, c: &Extension) -> Extension {
        let extension = ExtensionField::new(self);
        extension.subtract(a, &extension.multiply(b, c))
    }

    fn value_of_modulus(self, point: &Extension, degree: u64, is_negacyclic: bool) -> Extension {
        let mut value = ExtensionField::new(self).power(point, degree);
        value[0] = match is_negacyclic {
            true => self.add(value[0], self.one()),
            false => self.subtract(value[0], self.one()),
        };
        value
    }

    fn evict_tables(self, gpu: &GpuVectors) {
        gpu.evict_tables31();
    }
}
