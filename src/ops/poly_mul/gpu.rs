//! Multiplies values between a transform to bit-reversed order and one from it, so that no pass
//! only reorders.

use std::sync::Arc;

use ark_ff::Field;
use zeroize::Zeroizing;

use super::{PolyMulStep, PolyReduction, sizes::ProductSizes};
use crate::{
    curve::{Fr, FrField, NttPlan, scalars::random_point},
    engine::cuda::{GpuVector, GpuVectors},
    error::{Error, Limit, Result},
    ops::{
        gpu::{GpuContext, GpuStep, GpuValue, LaunchedStep},
        host::HostField,
    },
};

impl GpuStep for PolyMulStep {
    /// With a check, transforms compute the whole product: its value at a secret point follows from
    /// those of the factors, and that of the reduced product from what is reduced.
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let (shape, is_checked) = (context.shape()?, context.is_checked);
        let [a, b] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let of = |vector: &GpuVector| {
            let shape = shape.with_length(vector.row_length as u64);
            shape.map_err(|problem| Error::Internal(problem.to_string()))
        };
        let sizes = self.sizes(of(&a)?, of(&b)?);
        // A vector that is multiplied by itself is held once.
        let b = (!self.is_square()).then_some(b);
        let point = is_checked.then(|| *random_point());
        let product = GpuProduct { gpu: context.gpu, sizes, point };
        let (vector, method) = product.launch(a, b)?;
        Ok(LaunchedStep { value: GpuValue::Vector(vector), method, is_checked })
    }
}

/// A product to compute.
struct GpuProduct<'g> {
    gpu: &'g GpuVectors,
    sizes: ProductSizes,
    /// The secret point of the check.
    point: Option<Fr>,
}

/// Rows of coefficients, and what their values at the secret point must be.
struct CheckedRows {
    vector: Arc<GpuVector>,
    /// One per row; none without a check.
    values: Zeroizing<Vec<Fr>>,
}

impl GpuProduct<'_> {
    /// The product, and how it is computed.
    fn launch(
        &self,
        a: Arc<GpuVector>,
        b: Option<Arc<GpuVector>>,
    ) -> Result<(Arc<GpuVector>, String)> {
        let (gpu, sizes) = (self.gpu, &self.sizes);
        let whole = self.point.map_or(sizes.transform(), |_| sizes.full_transform());
        // The host may have memory for a product that no transform of a GPU computes.
        let no_memory = Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None };
        let transform = whole.ok_or(no_memory)?;
        let root = |lg_order| FrField.root_of_unity(lg_order);
        let coset = transform.lg_coset.and_then(root);
        let forward = NttPlan {
            lg_n: transform.lg_n,
            inverse: false,
            coset,
            input_reversed: false,
            output_reversed: true,
        };
        let inverse =
            NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..forward };
        let mut a = self.factor(a)?;
        let b = b.map(|b| self.factor(b)).transpose()?;
        let of_b = b.as_ref().map_or(&a.values, |b| &b.values);
        let values =
            Zeroizing::new(a.values.iter().zip(of_b.iter()).map(|(a, b)| *a * b).collect());
        a.values = values;
        let CheckedRows { vector, values } = a;
        let left = self.transformed(&forward, vector)?;
        let right = b.map(|b| self.transformed(&forward, b.vector)).transpose()?;
        let (out, right) = (left.fr_elements()?, right.as_ref().unwrap_or(&left).fr_elements()?);
        gpu.kernels().multiply(&gpu.stream, out, out, right)?;
        let done = gpu.transform(&inverse, left, false)?;
        let whole = CheckedRows { vector: Arc::new(done.vector), values };
        let product = self.reduced(whole, sizes.full as usize)?;
        let vector = self.with_row_length(product.vector, sizes.reduced as usize)?;
        if let Some(point) = self.point
            && *gpu.values_at(&vector, point)? != *product.values
        {
            gpu.evict_twiddle_tables();
            return Err(Error::Corrupt);
        }
        Ok((vector, done.method))
    }

    fn factor(&self, vector: Arc<GpuVector>) -> Result<CheckedRows> {
        let values = self.point.map(|point| self.gpu.values_at(&vector, point)).transpose()?;
        let length = vector.row_length;
        self.reduced(CheckedRows { vector, values: values.unwrap_or_default() }, length)
    }

    /// Reduces rows whose first `length` coefficients may differ from 0, by adding or subtracting
    /// their upper half until they are short enough.
    fn reduced(&self, rows: CheckedRows, length: usize) -> Result<CheckedRows> {
        let (gpu, reduction) = (self.gpu, self.sizes.reduction);
        let degree = reduction.degree().and_then(|degree| usize::try_from(degree).ok());
        let degree = degree.unwrap_or(usize::MAX);
        if rows.vector.row_length.min(length) <= degree {
            return Ok(rows);
        }
        let CheckedRows { vector, mut values } = rows;
        let mut blocks = length.div_ceil(degree).next_power_of_two();
        let mut vector = self.with_row_length(vector, blocks * degree)?;
        while blocks > 1 {
            blocks /= 2;
            let half = blocks * degree;
            let low = gpu.with_row_length(&vector, half)?;
            let high = gpu.zeros(vector.field(), vector.rows, half)?;
            gpu.copy_rows(&high, 0, &vector, half, half)?;
            // X^(degree blocks) is the same power of 1 or -1.
            let is_negative = blocks == 1 && matches!(reduction, PolyReduction::Negacyclic(_));
            if let Some(point) = self.point {
                let power = point.pow([half as u64]);
                let divisor = power - Fr::from(if is_negative { -1 } else { 1 });
                let of_high = gpu.values_at(&high, point)?;
                let pairs = values.iter_mut().zip(of_high.iter());
                pairs.for_each(|(value, high)| *value -= divisor * high);
            }
            let (kernels, out, other) = (gpu.kernels(), low.fr_elements()?, high.fr_elements()?);
            match is_negative {
                true => kernels.subtract(&gpu.stream, out, out, other)?,
                false => kernels.add(&gpu.stream, out, out, other)?,
            }
            vector = Arc::new(low);
        }
        Ok(CheckedRows { vector, values })
    }

    fn transformed(&self, plan: &NttPlan, vector: Arc<GpuVector>) -> Result<GpuVector> {
        let n = 1 << plan.lg_n;
        // The transform overwrites a vector that nothing else reads.
        let vector = match Arc::try_unwrap(vector) {
            Ok(own) if own.row_length == n => own,
            Ok(own) => self.gpu.with_row_length(&own, n)?,
            Err(shared) => self.gpu.with_row_length(&shared, n)?,
        };
        Ok(self.gpu.transform(plan, vector, false)?.vector)
    }

    fn with_row_length(&self, vector: Arc<GpuVector>, length: usize) -> Result<Arc<GpuVector>> {
        if vector.row_length == length {
            return Ok(vector);
        }
        self.gpu.with_row_length(&vector, length).map(Arc::new)
    }
}
