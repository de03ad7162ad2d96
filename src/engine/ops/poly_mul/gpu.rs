//! Products by transforms, and reductions by adding or subtracting blocks of coefficients.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{
    engines::cuda::{GpuVector, GpuVectors},
    error::{Error, Limit, Result},
    operation::{PointwiseOperation, PolyMulStep, PolyReduction, ProductSizes, ProductTransform},
    ops::gpu::{
        self, AnyFieldGpuStep, GpuContext, GpuField, GpuProductSpec, GpuStep, GpuValue,
        LaunchedStep,
    },
};

/// log2 of the shortest rows that a GPU multiplies in one pass.
const LG_DEVICE_MIN: u32 = 8;

/// The transform that computes a product, before its reduction if `is_whole`.
pub(super) fn device_transform(sizes: &ProductSizes, is_whole: bool) -> Option<ProductTransform> {
    let is_served = |transform: &ProductTransform| transform.lg_n >= LG_DEVICE_MIN && !is_whole;
    let full = sizes.full_transform().map(|transform| {
        let lg_n = transform.lg_n.max(LG_DEVICE_MIN);
        ProductTransform { lg_n, ..transform }
    });
    sizes.reducing_transform().filter(is_served).or(full)
}

impl AnyFieldGpuStep for PolyMulStep {
    /// With a check, transforms compute the whole product: its value at a secret point follows from
    /// those of the factors, and that of the reduced product from what is reduced.
    fn launch_in<F: GpuField>(
        &self,
        field: F,
        inputs: Vec<Arc<GpuVector>>,
        context: GpuContext<'_>,
    ) -> Result<LaunchedStep> {
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
        let point = is_checked.then(|| Zeroizing::new(field.random_point()));
        let product = GpuProduct { field, gpu: context.gpu, sizes, point };
        let (vector, method) = product.launch(a, b)?;
        Ok(LaunchedStep { value: GpuValue::Vector(vector), method, is_checked })
    }
}

impl GpuStep for PolyMulStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        gpu::launch_in_any_field(self, inputs, context)
    }
}

/// A product to compute.
struct GpuProduct<'g, F: GpuField> {
    field: F,
    gpu: &'g GpuVectors,
    sizes: ProductSizes,
    /// The secret point of the check.
    point: Option<Zeroizing<F::Point>>,
}

/// Rows of coefficients, and what their values at the secret point must be.
struct CheckedRows<F: GpuField> {
    vector: Arc<GpuVector>,
    /// One per row; none without a check.
    values: Zeroizing<Vec<F::Point>>,
}

impl<F: GpuField> GpuProduct<'_, F> {
    /// The product, and how it is computed.
    fn launch(
        &self,
        a: Arc<GpuVector>,
        b: Option<Arc<GpuVector>>,
    ) -> Result<(Arc<GpuVector>, String)> {
        let &Self { field, gpu, ref sizes, ref point } = self;
        let transform = device_transform(sizes, point.is_some());
        // The host may have memory for a product that no transform of a GPU computes.
        let no_memory = Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None };
        let transform = transform.ok_or(no_memory)?;
        let no_root = || Error::Internal("no root of unity of that order".into());
        let root = |lg_order| field.root_of_unity(lg_order).ok_or_else(no_root);
        let coset = transform.lg_coset.map(root).transpose()?;
        let a = self.factor(a)?;
        let b = b.map(|b| self.factor(b)).transpose()?;
        let of_b = b.as_ref().map_or(&a.values, |b| &b.values);
        let pairs = a.values.iter().zip(of_b.iter());
        let values = Zeroizing::new(pairs.map(|(a, b)| field.multiply_values(a, b)).collect());
        let n = 1 << transform.lg_n;
        let length = n.min(sizes.full as usize);
        let spec = GpuProductSpec { lg_n: transform.lg_n, coset, length };
        let done = field.multiply_polynomials(gpu, &spec, a.vector, b.map(|b| b.vector))?;
        let whole = CheckedRows { vector: Arc::new(done.vector), values };
        let product = self.reduced(whole, sizes.full as usize)?;
        let vector = self.with_row_length(product.vector, sizes.reduced as usize)?;
        if let Some(point) = point
            && *field.values_at(gpu, &vector, point)? != *product.values
        {
            field.evict_tables(gpu);
            return Err(Error::Corrupt);
        }
        Ok((vector, done.method))
    }

    fn factor(&self, vector: Arc<GpuVector>) -> Result<CheckedRows<F>> {
        let &Self { field, gpu, ref point, .. } = self;
        let values = match point {
            Some(point) => field.values_at(gpu, &vector, point)?,
            None => Zeroizing::default(),
        };
        let length = vector.row_length;
        self.reduced(CheckedRows { vector, values }, length)
    }

    /// Reduces rows whose first `length` coefficients may differ from 0, by adding or subtracting
    /// their upper half until they are short enough.
    fn reduced(&self, rows: CheckedRows<F>, length: usize) -> Result<CheckedRows<F>> {
        let &Self { field, gpu, ref sizes, ref point } = self;
        let degree = sizes.reduction.degree().and_then(|degree| usize::try_from(degree).ok());
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
            let is_negative =
                blocks == 1 && matches!(sizes.reduction, PolyReduction::Negacyclic(_));
            if let Some(point) = point {
                let of_high = field.values_at(gpu, &high, point)?;
                // Dropping a multiple of the modulus changes the value by that of the multiple.
                let modulus = field.value_of_modulus(point, half as u64, is_negative);
                for (value, high) in values.iter_mut().zip(of_high.iter()) {
                    *value = field.subtract_product(value, &modulus, high);
                }
            }
            let operation = match is_negative {
                true => PointwiseOperation::Subtract,
                false => PointwiseOperation::Add,
            };
            field.pointwise(gpu, operation, &low, &[&low, &high])?;
            vector = Arc::new(low);
        }
        Ok(CheckedRows { vector, values })
    }

    fn with_row_length(&self, vector: Arc<GpuVector>, length: usize) -> Result<Arc<GpuVector>> {
        if vector.row_length == length {
            return Ok(vector);
        }
        self.gpu.with_row_length(&vector, length).map(Arc::new)
    }
}
