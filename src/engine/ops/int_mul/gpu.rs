//! Products by transforms modulo three primes. The host checks them.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::{Error, Result},
    operation::IntMulStep,
    ops::gpu::{GpuContext, GpuStep, GpuValue, LaunchedStep},
    verify::{CheckedInteger, SecretPrimes},
};

impl GpuStep for IntMulStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let (gpu, is_checked) = (context.gpu, context.is_checked);
        let [a, b] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let other = (!self.is_square()).then_some(&*b);
        let done = gpu.multiply_integers(&a, other)?;
        if is_checked {
            let (of_a, product) = (gpu.read_limbs(&a)?, gpu.read_limbs(&done.vector)?);
            let of_b = other.map(|b| gpu.read_limbs(b)).transpose()?;
            let primes = SecretPrimes::random();
            let rows_of_b = of_b.as_ref().unwrap_or(&of_a).chunks(b.row_length);
            let rows = of_a.chunks(a.row_length).zip(rows_of_b);
            for ((a, b), product) in rows.zip(product.chunks(done.vector.row_length)) {
                if !primes.verify(CheckedInteger { a, b, product }, gpu.control())? {
                    gpu.evict_tables31();
                    return Err(Error::Corrupt);
                }
            }
        }
        let value = GpuValue::Vector(Arc::new(done.vector));
        Ok(LaunchedStep { value, method: done.method, is_checked })
    }
}
