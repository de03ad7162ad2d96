//! The work of a program's steps over 31-bit primes on one GPU.

use zeroize::Zeroizing;

use super::{
    vector::GpuVector,
    vectors::{GpuVectors, TransformedVector, no_memory},
};
use crate::{
    curve::NttPlan,
    error::{Error, Limit, Result},
    field::{Element31, Extension, ExtensionField, Field31},
    ntt31::{EvaluatedRows, Product31Rows, ShortRows, VectorKernels31},
};

/// Which values of polynomials rows have.
enum RowValues {
    Coefficients,
    AtRootsOfUnity,
}

impl GpuVectors {
    /// The kernels for vectors of words.
    pub fn kernels31(&self) -> &VectorKernels31 {
        &self.gpu().words.vectors
    }

    /// Transforms rows of 2^lg_n elements. With `is_checked`, compares the values of input and
    /// output, which are the same polynomials, at a secret point of the extension.
    ///
    /// Errors: `Corrupt` if the check fails; `Exhausted`.
    pub fn transform31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        vector: GpuVector,
        is_checked: bool,
    ) -> Result<TransformedVector> {
        let rows = u32::try_from(vector.rows).map_err(|_| no_memory())?;
        let transforms = &self.gpu().words.transforms;
        let planned = self.with_evictions(|| Ok(transforms.plan(field, plan, rows)?))?;
        let check = is_checked.then(|| TransformCheck::new(field, plan));
        let before =
            check.as_ref().map(|check| check.values(self, &vector, &check.input)).transpose()?;
        let second = planned
            .needs_second_buffer()
            .then(|| self.zeros(vector.field(), vector.rows, vector.row_length))
            .transpose()?;
        let second_words = second.as_ref().map(GpuVector::words).transpose()?;
        transforms.run(&self.stream, &planned, vector.words()?, rows, second_words)?;
        let done = second.unwrap_or(vector);
        let after =
            check.as_ref().map(|check| check.values(self, &done, &check.output)).transpose()?;
        if before != after {
            transforms.evict_tables();
            return Err(Error::Corrupt);
        }
        Ok(TransformedVector { vector: done, method: planned.to_string() })
    }

    /// Multiplies rows of coefficients modulo `X^n - shift^n` for n = 2^`lg_n`, where `shift` is
    /// the coset's generator, or 1; squares `a` without `b`. The rows of the product have `length`
    /// coefficients, at most n.
    ///
    /// Errors: `Exhausted`; `Internal` if a factor is longer than n.
    pub fn multiply31(
        &self,
        field: Field31,
        lg_n: u32,
        coset: Option<Element31>,
        (a, b): (&GpuVector, Option<&GpuVector>),
        length: usize,
    ) -> Result<TransformedVector> {
        let rows = u32::try_from(a.rows).map_err(|_| no_memory())?;
        let transforms = &self.gpu().words.transforms;
        let plan =
            self.with_evictions(|| Ok(transforms.plan_product(field, lg_n, coset, rows)?))?;
        let memory = plan.needs(b.is_none()).map(|is_needed| {
            is_needed.then(|| self.zeros(a.field(), a.rows, 1 << lg_n)).transpose()
        });
        let [of_a, of_b] = memory;
        let (of_a, of_b) = (of_a?, of_b?);
        let [of_a, of_b] =
            [&of_a, &of_b].map(|memory| memory.as_ref().map(GpuVector::words).transpose());
        let out = self.zeros(a.field(), a.rows, length)?;
        transforms.multiply(
            &self.stream,
            &plan,
            Product31Rows {
                a: short_rows(a)?,
                b: b.map(short_rows).transpose()?,
                transforms: [of_a?, of_b?],
                out: short_rows(&out)?,
                rows,
            },
        )?;
        Ok(TransformedVector { vector: out, method: plan.to_string() })
    }

    /// The value of each row, the coefficients of a polynomial, at a point of the extension. Waits
    /// for the device.
    ///
    /// Errors: `Exhausted`; `DeviceLost`.
    pub fn values_in_extension(
        &self,
        vector: &GpuVector,
        extension: ExtensionField,
        point: &Extension,
    ) -> Result<Zeroizing<Vec<Extension>>> {
        let rows = PolynomialRows { lg_reversed: None, values: RowValues::Coefficients };
        self.row_values(vector, &rows, extension, point)
    }

    /// Drops the twiddle tables over 31-bit primes, which may be damaged: a check has failed.
    pub fn evict_tables31(&self) {
        self.gpu().words.transforms.evict_tables();
    }

    fn row_values(
        &self,
        vector: &GpuVector,
        rows: &PolynomialRows,
        extension: ExtensionField,
        point: &Extension,
    ) -> Result<Zeroizing<Vec<Extension>>> {
        let stream = &self.stream;
        let evaluator = &self.kernels31().evaluator;
        let &PolynomialRows { lg_reversed, ref values } = rows;
        let rows = EvaluatedRows { words: vector.words()?, rows: vector.rows, lg_reversed };
        let sums = match values {
            RowValues::Coefficients => {
                evaluator.evaluate_in_extension(stream, extension, rows, point)?
            }
            RowValues::AtRootsOfUnity => evaluator.interpolate(stream, extension, rows, point)?,
        };
        let bytes = self.read(sums.all())?;
        let sums = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let field = extension.base;
        let p = u64::from(extension.base.modulus());
        let words = sums.map(|sum| {
            let word = field.montgomery_element((sum % p) as u32);
            word.expect("a remainder is below the modulus")
        });
        let words = Zeroizing::new(words.collect::<Vec<_>>());
        Ok(Zeroizing::new(words.as_chunks().0.to_vec()))
    }

    /// Makes tables, evicting idle objects from the device as needed.
    pub(super) fn with_evictions<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        let resident = self.gpu().msm.resident();
        loop {
            match make() {
                Err(Error::Exhausted { limit: Limit::DeviceMemory, .. })
                    if resident.evict_idle() => {}
                made => return made,
            }
        }
    }
}

pub(super) fn short_rows(vector: &GpuVector) -> Result<ShortRows<'_>> {
    let length = u32::try_from(vector.row_length).map_err(|_| no_memory())?;
    Ok(ShortRows { words: vector.words()?, length })
}

/// How the rows of a transform represent polynomials.
struct PolynomialRows {
    lg_reversed: Option<u32>,
    values: RowValues,
}

/// The check of a transform.
struct TransformCheck {
    extension: ExtensionField,
    /// The point for values: their polynomial's argument is divided by the coset's generator.
    point: Zeroizing<Extension>,
    shifted_point: Zeroizing<Extension>,
    input: PolynomialRows,
    output: PolynomialRows,
}

impl TransformCheck {
    fn new(field: Field31, plan: &NttPlan<Element31>) -> Self {
        let extension = ExtensionField::new(field);
        let point = Zeroizing::new(extension.random_point());
        let shifted = plan.coset.map_or(*point, |coset| extension.scale(&point, coset));
        let rows = |reversed: bool, values| PolynomialRows {
            lg_reversed: reversed.then_some(plan.lg_n),
            values,
        };
        let (input, output) = match plan.inverse {
            false => (RowValues::Coefficients, RowValues::AtRootsOfUnity),
            true => (RowValues::AtRootsOfUnity, RowValues::Coefficients),
        };
        let (input, output) =
            (rows(plan.input_reversed, input), rows(plan.output_reversed, output));
        Self { extension, point, shifted_point: Zeroizing::new(shifted), input, output }
    }

    fn values(
        &self,
        gpu: &GpuVectors,
        vector: &GpuVector,
        rows: &PolynomialRows,
    ) -> Result<Zeroizing<Vec<Extension>>> {
        let point = match rows.values {
            RowValues::Coefficients => &self.shifted_point,
            RowValues::AtRootsOfUnity => &self.point,
        };
        gpu.row_values(vector, rows, self.extension, point)
    }
}
