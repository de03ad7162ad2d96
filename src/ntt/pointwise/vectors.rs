//! Element-wise arithmetic.

use ark_ff::{AdditiveGroup, Field, PrimeField};

use super::{
    DeviceVector, ElementPtr, THREADS, evaluate::PolynomialEvaluator, grid, kernel_fault,
    montgomery,
};
use crate::{
    curve::Fr,
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, Gpu, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
    error::{Error, FieldProblem, Result},
    ntt::{transform::ELEMENT_BYTES, twiddles::square_times},
};

/// Parameters: a, b, out, count.
type BinaryKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64)>;
/// Parameters: a, out, count, two precomputed multiples of four words each.
type ScaleKernel = Kernel<(ElementPtr, ElementPtr, u64, u64, u64, u64, u64, u64, u64, u64, u64)>;
/// Parameters: a, b, c, out, count, factor in four words.
type QuotientKernel =
    Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u64, u64, u64, u64, u64)>;
/// Parameters: out, count, first and base in four words each.
type FirstPowersKernel = Kernel<(ElementPtr, u32, u64, u64, u64, u64, u64, u64, u64, u64)>;
/// Parameters: out, known, count, powers per thread, two precomputed multiples of four words each.
type PowersKernel = Kernel<(ElementPtr, u64, u64, u32, u64, u64, u64, u64, u64, u64, u64, u64)>;
/// Parameters: in, out, prefixes, count, elements per thread.
type InvertKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64, u32)>;

/// The growth of the powers per launch: each thread computes a chain of this many products. 2^24
/// take 0.27 ms on an H200, of which the products are 0.23; other lengths were not measured.
const POWERS_PER_THREAD: u32 = 16;
/// Threads of a block that shares an inversion.
const INVERT_THREADS: u32 = 256;
/// The most elements per thread, to amortise the block's tree and inversion: three products per
/// element, plus 9 divided by their number. Fewer if that lets blocks compute while others wait for
/// their inversion. 2^24 elements reach 983 GB/s on an H200; other values were not measured.
const INVERT_PER_THREAD_MAX: u64 = 32;

pub struct VectorKernels {
    multiply: BinaryKernel,
    add: BinaryKernel,
    subtract: BinaryKernel,
    scale: ScaleKernel,
    quotient: QuotientKernel,
    first_powers: FirstPowersKernel,
    powers: PowersKernel,
    invert: InvertKernel,
    evaluate: PolynomialEvaluator,
    arena: DeviceArena,
    /// Resident blocks.
    invert_blocks: u64,
}

/// The vanishing polynomial X^n - 1 of a domain of n elements, on a coset of that domain, where it
/// has the same nonzero value everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VanishingPolynomial {
    inverse: Fr,
}

impl VanishingPolynomial {
    /// On the coset of `generator` times the powers of a root of order 2^lg_n.
    ///
    /// Errors: `Invalid` if the coset is the domain itself, on which the polynomial is zero.
    pub fn on_coset(lg_n: u32, generator: Fr) -> Result<Self> {
        let inverse = (square_times(generator, lg_n) - Fr::ONE).inverse();
        let inverse = inverse.ok_or_else(|| Error::field("coset", FieldProblem::Zero))?;
        Ok(Self { inverse })
    }
}

impl VectorKernels {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let identity = gpu.identity();
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        let module = KernelModule::load(gpu.context(), "ntt/pointwise")?;
        let block = BlockShape::threads(THREADS);
        let inversion = KernelModule::load(gpu.context(), "ntt/batch_inverse")?;
        let invert_block = BlockShape::threads(INVERT_THREADS);
        let invert: InvertKernel =
            inversion.kernel("fr_batch_inverse", invert_block).map_err(failed)?;
        let resident = invert.resident_blocks().map_err(failed)?;
        Ok(Self {
            multiply: module.kernel("fr_multiply", block).map_err(failed)?,
            add: module.kernel("fr_add", block).map_err(failed)?,
            subtract: module.kernel("fr_subtract", block).map_err(failed)?,
            scale: module.kernel("fr_scale", block).map_err(failed)?,
            quotient: module.kernel("fr_quotient", block).map_err(failed)?,
            first_powers: module.kernel("fr_first_powers", block).map_err(failed)?,
            powers: module.kernel("fr_extend_powers", block).map_err(failed)?,
            invert,
            evaluate: PolynomialEvaluator::load(gpu, &module)?,
            arena: gpu.arena().clone(),
            invert_blocks: u64::from(identity.limits.multiprocessors * resident),
        })
    }

    /// out\[i\] = a\[i\] b\[i\].
    ///
    /// Shape: all have the same length; `out` may be `a` or `b`, but must not overlap them in part.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn multiply(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
        b: DeviceVector<'_>,
    ) -> Result<(), DeviceFault> {
        binary(&self.multiply, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] + b\[i\]. Shape and errors: like [`VectorKernels::multiply`].
    pub fn add(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
        b: DeviceVector<'_>,
    ) -> Result<(), DeviceFault> {
        binary(&self.add, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] - b\[i\]. Shape and errors: like [`VectorKernels::multiply`].
    pub fn subtract(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
        b: DeviceVector<'_>,
    ) -> Result<(), DeviceFault> {
        binary(&self.subtract, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] factor. Shape and errors: like [`VectorKernels::multiply`].
    pub fn scale(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
        factor: Fr,
    ) -> Result<(), DeviceFault> {
        check_lengths(out, &[a])?;
        let [w0, w1, w2, w3, w4, w5, w6, w7] = shoup_multiples(factor);
        let count = out.len() as u64;
        let arguments = (a, out, count, w0, w1, w2, w3, w4, w5, w6, w7);
        self.scale.launch(stream, element_grid(count)?, arguments)
    }

    /// out\[i\] = a\[i\] divided by the vanishing polynomial, for values `a` on its coset in any
    /// order. Shape and errors: like [`VectorKernels::multiply`].
    pub fn divide(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
        vanishing: &VanishingPolynomial,
    ) -> Result<(), DeviceFault> {
        self.scale(stream, out, a, vanishing.inverse)
    }

    /// out\[i\] = (a\[i\] b\[i\] - c\[i\]) divided by the vanishing polynomial, for values on its
    /// coset in the same order: the quotient of Groth16. Shape and errors: like
    /// [`VectorKernels::multiply`].
    pub fn quotient(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        [a, b, c]: [DeviceVector<'_>; 3],
        vanishing: &VanishingPolynomial,
    ) -> Result<(), DeviceFault> {
        check_lengths(out, &[a, b, c])?;
        let [w0, w1, w2, w3] = montgomery(vanishing.inverse);
        let count = out.len() as u64;
        let arguments = (a, b, c, out, count, w0, w1, w2, w3);
        self.quotient.launch(stream, element_grid(count)?, arguments)
    }

    /// out\[i\] = first base^i.
    pub fn powers(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        first: Fr,
        base: Fr,
    ) -> Result<(), DeviceFault> {
        let count = out.len() as u64;
        let mut known = count.min(THREADS.into());
        let ([f0, f1, f2, f3], [b0, b1, b2, b3]) = (montgomery(first), montgomery(base));
        let arguments = (out, known as u32, f0, f1, f2, f3, b0, b1, b2, b3);
        self.first_powers.launch(stream, element_grid(known)?, arguments)?;
        while known < count {
            let [w0, w1, w2, w3, w4, w5, w6, w7] = shoup_multiples(base.pow([known]));
            let arguments = (out, known, count, POWERS_PER_THREAD, w0, w1, w2, w3, w4, w5, w6, w7);
            self.powers.launch(stream, element_grid(known)?, arguments)?;
            known = count.min(known * u64::from(POWERS_PER_THREAD));
        }
        Ok(())
    }

    /// out\[i\] = 1 / a\[i\], and 0 if a\[i\] is 0. In place it leases memory for as many elements,
    /// which is zeroed and returned at once.
    ///
    /// Shape: like [`VectorKernels::multiply`].
    /// Errors: `OutOfMemory` in place; like [`VectorKernels::multiply`].
    pub fn invert(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        a: DeviceVector<'_>,
    ) -> Result<(), DeviceFault> {
        check_lengths(out, &[a])?;
        let count = out.len() as u64;
        // Every wave of blocks fills the device.
        let wave = u64::from(INVERT_THREADS) * self.invert_blocks;
        let waves = count.div_ceil(wave * INVERT_PER_THREAD_MAX).max(1);
        let per_thread = count.div_ceil(wave * waves).max(1);
        let blocks = count.div_ceil(u64::from(INVERT_THREADS) * per_thread);
        let is_in_place = out.arena_offset() == a.arena_offset();
        let scratch = (is_in_place && per_thread > 1)
            .then(|| self.arena.lease(stream, count * ELEMENT_BYTES))
            .transpose()?;
        let prefixes = scratch.as_ref().map_or(out, DeviceLease::all);
        self.invert.launch(stream, grid(blocks)?, (a, out, prefixes, count, per_thread as u32))
    }

    /// out\[r\] = the sum of coefficients\[r n + i\] point^i over i < n: evaluates polynomials, one
    /// per row of n coefficients in natural order, at a point. It leases memory for 256 elements
    /// plus one per about a thousand coefficients, which is zeroed and returned at once.
    ///
    /// Shape: `coefficients` has n elements for each of `out`, for any n, and does not overlap it.
    /// Errors: `OutOfMemory`; `KernelMismatch` if the shape is wrong; driver errors.
    pub fn evaluate(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        coefficients: DeviceVector<'_>,
        point: Fr,
    ) -> Result<(), DeviceFault> {
        self.evaluate.run(stream, out, coefficients, point)
    }
}

fn binary(
    kernel: &BinaryKernel,
    stream: &Stream,
    out: DeviceVector<'_>,
    a: DeviceVector<'_>,
    b: DeviceVector<'_>,
) -> Result<(), DeviceFault> {
    check_lengths(out, &[a, b])?;
    let count = out.len() as u64;
    kernel.launch(stream, element_grid(count)?, (a, b, out, count))
}

/// The number of blocks with one element per thread.
fn element_grid(count: u64) -> Result<u32, DeviceFault> {
    grid(count.div_ceil(THREADS.into()))
}

/// Checks that all vectors have the same length, and that each is `out` or does not overlap it.
fn check_lengths(out: DeviceVector<'_>, inputs: &[DeviceVector<'_>]) -> Result<(), DeviceFault> {
    let bytes = out.len() as u64 * ELEMENT_BYTES;
    for input in inputs {
        if input.len() != out.len() {
            return Err(kernel_fault("vectors have different lengths"));
        }
        let distance = input.arena_offset().abs_diff(out.arena_offset());
        if distance != 0 && distance < bytes {
            return Err(kernel_fault("vectors overlap in part"));
        }
    }
    Ok(())
}

/// The precomputed multiples factor 2^(32 (5 + 4 k)): see `kernels/field/fr.cuh`.
fn shoup_multiples(factor: Fr) -> [u64; 8] {
    let multiple = |k: u64| (factor * Fr::ONE.double().pow([32 * (5 + 4 * k)])).into_bigint().0;
    bytemuck::cast([multiple(0), multiple(1)])
}
