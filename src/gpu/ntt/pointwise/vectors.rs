//! Element-wise arithmetic.

use ark_ff::Field;

use super::{
    DeviceVector, ElementPtr, THREADS,
    combination::{LinearCombiner, LinearTerm},
    common_length, element_grid,
    evaluate::PolynomialEvaluator,
    fused::RowKernels,
    grid, montgomery,
    scans::RowScans,
    shoup_multiples,
    sparse::{DeviceMatrix, SparseMultiplier},
};
use crate::{
    curve::Fr,
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, Gpu, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
    error::{FieldProblem, InputError},
    ntt::{
        elements::{DeviceFr, ELEMENT_BYTES},
        twiddles::square_times,
    },
};

/// Parameters: a, b, out, count.
type BinaryKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64)>;
/// Parameters: a, out, count, two precomputed multiples.
type ScaleKernel = Kernel<(ElementPtr, ElementPtr, u64, [DeviceFr; 2])>;
/// Parameters: out, count, first, base.
type FirstPowersKernel = Kernel<(ElementPtr, u32, DeviceFr, DeviceFr)>;
/// Parameters: out, known, count, powers_per_thread, two precomputed multiples.
type PowersKernel = Kernel<(ElementPtr, u64, u64, u32, [DeviceFr; 2])>;
/// Parameters: in, out, prefixes, count, elements_per_thread.
type InvertKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64, u32)>;

/// The growth of the powers per launch: each thread computes a chain of this many products, which
/// take 85 % of the time (`benches/experiments/vectors.md`).
const POWERS_PER_THREAD: u32 = 16;
/// Threads of a block that shares an inversion.
const INVERT_THREADS: u32 = 256;
/// The most elements per thread, to amortise the block's tree and inversion: three products per
/// element, plus 9 divided by their number. Fewer if that lets blocks compute while others wait for
/// their inversion. Within a tenth of the counted time (`benches/experiments/vectors.md`).
const INVERT_PER_THREAD_MAX: u64 = 32;

pub struct VectorKernels {
    multiply: BinaryKernel,
    add: BinaryKernel,
    subtract: BinaryKernel,
    scale: ScaleKernel,
    first_powers: FirstPowersKernel,
    powers: PowersKernel,
    invert: InvertKernel,
    evaluate: PolynomialEvaluator,
    scans: RowScans,
    combine: LinearCombiner,
    sparse: SparseMultiplier,
    pub rows: RowKernels,
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
    pub fn on_coset(lg_n: u32, generator: Fr) -> Result<Self, InputError> {
        let inverse = (square_times(generator, lg_n) - Fr::ONE).inverse();
        let inverse = inverse.ok_or_else(|| InputError::field("coset", FieldProblem::Zero))?;
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
            first_powers: module.kernel("fr_first_powers", block).map_err(failed)?,
            powers: module.kernel("fr_extend_powers", block).map_err(failed)?,
            invert,
            evaluate: PolynomialEvaluator::load(gpu, &module)?,
            scans: RowScans::load(gpu)?,
            combine: LinearCombiner::load(gpu)?,
            sparse: SparseMultiplier::load(gpu)?,
            rows: RowKernels::load(&module).map_err(failed)?,
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
        let count = common_length(out, &[a])?;
        self.scale.launch(stream, element_grid(count)?, (a, out, count, shoup_multiples(factor)))
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
        let arguments = (out, known as u32, montgomery(first), montgomery(base));
        self.first_powers.launch(stream, element_grid(known)?, arguments)?;
        while known < count {
            let multiples = shoup_multiples(base.pow([known]));
            let arguments = (out, known, count, POWERS_PER_THREAD, multiples);
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
        let count = common_length(out, &[a])?;
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

    /// Divides polynomials, one per row of coefficients in natural order, by X - point and drops
    /// the remainder: out\[i\] = coefficients\[i + 1\] + point out\[i + 1\], and 0 at a row's end.
    /// It leases memory for an element per 4 to 64 coefficients, and for at least 128 per row,
    /// which is zeroed and returned at once.
    ///
    /// Shape: like [`VectorKernels::multiply`], and whole rows.
    /// Errors: `OutOfMemory`; like [`VectorKernels::multiply`].
    pub fn divide_by_linear(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        coefficients: DeviceVector<'_>,
        rows: usize,
        point: Fr,
    ) -> Result<(), DeviceFault> {
        self.scans.divide_by_linear(stream, out, coefficients, rows, point)
    }

    /// Makes each element of `out` the product of the elements of its row up to it.
    ///
    /// Shape and errors: like [`VectorKernels::divide_by_linear`].
    pub fn prefix_products(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        elements: DeviceVector<'_>,
        rows: usize,
    ) -> Result<(), DeviceFault> {
        self.scans.prefix_products(stream, out, elements, rows)
    }

    /// out\[i\] = the sum over `terms` of factor vector\[i\]: zeros without terms. More than eight
    /// distinct vectors take several passes over `out`.
    ///
    /// Shape and errors: like [`VectorKernels::multiply`].
    pub fn linear_combination(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        terms: &[LinearTerm<'_>],
    ) -> Result<(), DeviceFault> {
        self.combine.run(stream, out, terms)
    }

    /// The products of a matrix and `count` vectors, one after another in `vectors` and in `out`.
    /// It leases memory for an element per 2048 terms of long rows, which is zeroed and returned at
    /// once.
    ///
    /// Shape: vectors of as many elements as the matrix has columns, products of as many as it has
    /// rows; `out` does not overlap `vectors`.
    /// Errors: `OutOfMemory`; `KernelMismatch` if the shape is wrong; driver errors.
    pub fn multiply_sparse(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        matrix: &DeviceMatrix<'_>,
        vectors: DeviceVector<'_>,
        count: usize,
    ) -> Result<(), DeviceFault> {
        self.sparse.run(stream, out, matrix, vectors, count)
    }
}

fn binary(
    kernel: &BinaryKernel,
    stream: &Stream,
    out: DeviceVector<'_>,
    a: DeviceVector<'_>,
    b: DeviceVector<'_>,
) -> Result<(), DeviceFault> {
    let count = common_length(out, &[a, b])?;
    kernel.launch(stream, element_grid(count)?, (a, b, out, count))
}
