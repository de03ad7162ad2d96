//! The products by a library or by transforms on the engine, on a GPU by transforms modulo three
//! primes. The host checks all.

use std::sync::Arc;

use crate::{
    engines::{EngineModel, EngineWork, JobControl, cuda::GpuVector},
    error::{Error, Result},
    field::{FieldId, IntegerLimbs, Prime31},
    integers::{self, FactorLimbs, IntegerFactors, ProductSize},
    operation::IntMulStep,
    ops::{
        gpu::{GpuContext, GpuStep, GpuValue, LaunchedStep},
        host::{
            self, HostArgument, HostContext, HostResult, HostRows, HostStep, HostValue, StepTypes,
        },
    },
    program::ValueType,
    verify::{CheckedInteger, SecretPrimes},
};

/// Word operations of a coefficient between transforms and the carry, in products in a field of a
/// prime below 2^31.
const COEFFICIENT_PRODUCTS: u64 = 16;
/// Products that take as long as a check's step for one limb, for all primes.
const CHECK_PRODUCTS: u64 = 6;
/// Products that take as long as finding the primes of a check.
const PRIMES_PRODUCTS: u64 = 1 << 18;

/// The lengths of the factors; `None` for points.
fn limbs(inputs: &[ValueType]) -> Option<FactorLimbs> {
    let &[ValueType::Vector(a), ValueType::Vector(b)] = inputs else { return None };
    Some(FactorLimbs { a: a.length(), b: b.length(), rows: a.rows() })
}

/// What takes the library as long, in products in a field of a prime below 2^31: its time grows
/// with a power of the shorter factor's limbs, by Karatsuba's method and better ones.
fn library_products(factors: FactorLimbs) -> u64 {
    let short = factors.a.min(factors.b) as f64;
    let long = factors.a.max(factors.b) as f64;
    (long * short.powf(0.6)) as u64
}

fn rows<'a>(inputs: &'a [HostArgument<'_>]) -> Result<[&'a [Vec<u32>]; 2]> {
    let [a, b] = inputs else {
        return Err(Error::Internal("the step needs two inputs".into()));
    };
    Ok([a.rows(IntegerLimbs)?, b.rows(IntegerLimbs)?])
}

fn are_right(
    inputs: &[HostArgument<'_>],
    products: &HostRows,
    control: &JobControl,
) -> Result<bool> {
    let HostRows::Integers(products) = products else { return Ok(false) };
    let [a, b] = rows(inputs)?;
    let primes = SecretPrimes::random();
    for ((a, b), product) in a.iter().zip(b).zip(products.iter()) {
        if !primes.verify(CheckedInteger { a, b, product }, control)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl HostStep for IntMulStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let mut out = host::zeros(context.shape()?, context.control)?;
        let [a, b] = rows(&inputs)?;
        let factors = IntegerFactors { a, b: (!self.is_square()).then_some(b) };
        let executor = integers::multiply(context.engine, factors, &mut out, context.control)?;
        Ok(HostResult { executor, ..HostResult::of_rows(IntegerLimbs, out) })
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let Some(factors) = limbs(types.inputs) else { return Vec::new() };
        let FactorLimbs { a, b, rows } = factors;
        let of_rows = |products: u64| types.products(products.saturating_mul(rows.into()));
        if integers::is_short(a, b, false) {
            return vec![of_rows(library_products(factors))];
        }
        let transforms = if self.is_square() { 2 } else { 3 };
        let of_size = |lg_n| {
            let field = FieldId::Prime31(Prime31::BabyBear);
            // One for each prime.
            std::iter::repeat_n(EngineWork::Ntt { field, lg_n, rows }, 3 * transforms)
        };
        let size = ProductSize::of(a + b).transforms();
        let mut all: Vec<_> =
            size.into_iter().flat_map(|transform| of_size(transform.lg_n)).collect();
        all.push(of_rows(COEFFICIENT_PRODUCTS * (a + b)));
        all
    }

    fn check_work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let Some(FactorLimbs { a, b, rows }) = limbs(types.inputs) else {
            return Vec::new();
        };
        let limbs = 2 * (a + b) * u64::from(rows);
        vec![types.products(PRIMES_PRODUCTS + CHECK_PRODUCTS * limbs)]
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let HostValue::Vector(products) = value else { return Ok(Some(false)) };
        are_right(inputs, products, context.control).map(Some)
    }

    fn scratch_bytes(&self, inputs: &[ValueType], engine: &dyn EngineModel, _: bool) -> u64 {
        let Some(factors) = limbs(inputs) else { return 0 };
        integers::working_bytes(factors, self.is_square(), engine)
    }

    fn device_scratch_bytes(&self, inputs: &[ValueType]) -> u64 {
        let Some(FactorLimbs { a, b, rows }) = limbs(inputs) else { return 0 };
        // Residues modulo three primes, the transform of a factor, and the limbs, also before they
        // are copied to their places.
        let copies = if rows > 1 && !(a + b).is_multiple_of(4) { 6 } else { 5 };
        let words = copies * (a + b).next_power_of_two().max(1 << 8);
        words.saturating_mul(4 * u64::from(rows))
    }
}

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
