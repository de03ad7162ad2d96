//! Vector operations that provers need between transforms: element-wise arithmetic, in place or
//! not, and polynomials at a point. All run on a stream and never wait for the device.

mod evaluate;

use ark_ff::{AdditiveGroup, Field, PrimeField};

use self::evaluate::PolynomialEvaluator;
use super::{DeviceFr, ElementPtr};
use crate::{
    curve::Fr,
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable,
        Kernel, KernelModule, Stream,
    },
    error::{Error, FieldProblem, Result},
};

/// A vector in device memory: canonical elements in Montgomery form.
pub type DeviceVector<'a> = DeviceSlice<'a, DeviceFr>;

/// Eight bytes of a constant.
type ConstantWord = u64;
/// Parameters: a, b, out, count.
type BinaryKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64)>;
/// Parameters: a, out, count, two precomputed multiples.
type ScaleKernel = Kernel<(
    ElementPtr,
    ElementPtr,
    u64,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
)>;
/// Parameters: a, b, c, out, count, factor.
type QuotientKernel = Kernel<(
    ElementPtr,
    ElementPtr,
    ElementPtr,
    ElementPtr,
    u64,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
)>;
/// Parameters: out, count, first, base.
type FirstPowersKernel = Kernel<(
    ElementPtr,
    u32,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
)>;
/// Parameters: out, have, count, each, two precomputed multiples.
type PowersKernel = Kernel<(
    ElementPtr,
    u64,
    u64,
    u32,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
    ConstantWord,
)>;
/// Parameters: in, out, before, count, each.
type InvertKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64, u32)>;

/// Threads, and elements, per block: 2^24 elements reach 4.1 to 4.3 TB/s of an H200's 4.8. Other
/// sizes were not measured.
const THREADS: u32 = 128;
/// The growth of the powers per launch: each thread computes a chain of this many products. 2^24
/// take 0.27 ms on an H200, of which the products are 0.23; other lengths were not measured.
const POWERS_PER_THREAD: u32 = 16;
/// Threads of a block that shares an inversion.
const INVERT_THREADS: u32 = 256;
/// The most elements per thread, to amortise the block's tree and inversion: three products per
/// element, plus 9 divided by their number. Fewer if that lets blocks compute while others wait for
/// their inversion. 2^24 elements reach 983 GB/s on an H200; other values were not measured.
const INVERT_PER_THREAD_MAX: u64 = 32;

/// The vector kernels of one device.
pub struct VectorKernels {
    multiply: BinaryKernel,
    add: BinaryKernel,
    subtract: BinaryKernel,
    scale: ScaleKernel,
    quotient: QuotientKernel,
    powers_begin: FirstPowersKernel,
    powers: PowersKernel,
    invert: InvertKernel,
    evaluate: PolynomialEvaluator,
    arena: DeviceArena,
    /// Resident blocks of the inversion kernel.
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
        let power = (0..lg_n).fold(generator, |power, _| power.square());
        let inverse = (power - Fr::ONE).inverse();
        let inverse = inverse.ok_or_else(|| Error::field("coset", FieldProblem::Zero))?;
        Ok(Self { inverse })
    }
}

impl VectorKernels {
    /// Loads the kernels.
    ///
    /// Errors: kernels that do not fit this device; driver errors.
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let identity = gpu.identity();
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        let module = KernelModule::load(gpu.context(), "ntt/pointwise")?;
        let block = BlockShape::threads(THREADS);
        let inverting = KernelModule::load(gpu.context(), "ntt/batch_inverse")?;
        let invert: InvertKernel = inverting
            .kernel("fr_batch_inverse", BlockShape::threads(INVERT_THREADS))
            .map_err(failed)?;
        let invert_resident = invert.resident_blocks().map_err(failed)?;
        Ok(Self {
            multiply: module.kernel("fr_multiply", block).map_err(failed)?,
            add: module.kernel("fr_add", block).map_err(failed)?,
            subtract: module.kernel("fr_subtract", block).map_err(failed)?,
            scale: module.kernel("fr_scale", block).map_err(failed)?,
            quotient: module.kernel("fr_quotient", block).map_err(failed)?,
            powers_begin: module.kernel("fr_first_powers", block).map_err(failed)?,
            powers: module.kernel("fr_extend_powers", block).map_err(failed)?,
            invert,
            evaluate: PolynomialEvaluator::load(gpu, &module)?,
            arena: gpu.arena().clone(),
            invert_blocks: u64::from(identity.limits.multiprocessors * invert_resident),
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
        let given = (a, out, out.len() as u64, w0, w1, w2, w3, w4, w5, w6, w7);
        self.scale.launch(stream, grid(out.len() as u64)?, given)
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
        self.quotient.launch(stream, grid(count)?, (a, b, c, out, count, w0, w1, w2, w3))
    }

    /// out\[i\] = first base^i.
    ///
    /// Errors: driver errors.
    pub fn powers(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        first: Fr,
        base: Fr,
    ) -> Result<(), DeviceFault> {
        let count = out.len() as u64;
        let mut have = count.min(THREADS.into());
        let ([f0, f1, f2, f3], [b0, b1, b2, b3]) = (montgomery(first), montgomery(base));
        let given = (out, have as u32, f0, f1, f2, f3, b0, b1, b2, b3);
        self.powers_begin.launch(stream, grid(have)?, given)?;
        while have < count {
            let [w0, w1, w2, w3, w4, w5, w6, w7] = shoup_multiples(base.pow([have]));
            let given = (out, have, count, POWERS_PER_THREAD, w0, w1, w2, w3, w4, w5, w6, w7);
            self.powers.launch(stream, grid(have)?, given)?;
            have = count.min(have * u64::from(POWERS_PER_THREAD));
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
        let each = self.invert_each(count);
        let blocks = count.div_ceil(u64::from(INVERT_THREADS) * each);
        let scratch = if out.arena_offset() == a.arena_offset() && each > 1 {
            Some(self.arena.lease(stream, count * size_of::<DeviceFr>() as u64)?)
        } else {
            None
        };
        let prefixes = scratch.as_ref().map_or(out, DeviceLease::all);
        let grid = u32::try_from(blocks).map_err(|_| kernel_fault("too many elements"))?;
        self.invert.launch(stream, grid, (a, out, prefixes, count, each as u32))
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

    /// Elements per thread, so that every wave of blocks fills the device.
    fn invert_each(&self, count: u64) -> u64 {
        let wave = u64::from(INVERT_THREADS) * self.invert_blocks;
        let waves = count.div_ceil(wave * INVERT_PER_THREAD_MAX).max(1);
        count.div_ceil(wave * waves).max(1)
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
    kernel.launch(stream, grid(count)?, (a, b, out, count))
}

fn grid(count: u64) -> Result<u32, DeviceFault> {
    let blocks = count.div_ceil(THREADS.into());
    u32::try_from(blocks).map_err(|_| kernel_fault("too many elements"))
}

/// Checks that all vectors have the same length, and that each is `out` or does not overlap it.
fn check_lengths(out: DeviceVector<'_>, given: &[DeviceVector<'_>]) -> Result<(), DeviceFault> {
    let at = |vector: &DeviceVector<'_>| vector.arena_offset();
    let bytes = (out.len() * size_of::<DeviceFr>()) as u64;
    for vector in given {
        if vector.len() != out.len() {
            return Err(kernel_fault("vectors have different lengths"));
        }
        let apart = at(vector).abs_diff(at(&out));
        if apart != 0 && apart < bytes {
            return Err(kernel_fault("vectors overlap in part"));
        }
    }
    Ok(())
}

fn kernel_fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "fr_pointwise".into(), problem: problem.into() }
}

fn montgomery(factor: Fr) -> [u64; 4] {
    factor.0.0
}

/// The precomputed multiples factor 2^(32 (5 + 4 k)): see `kernels/field/fr.cuh`.
fn shoup_multiples(factor: Fr) -> [u64; 8] {
    let multiple = |k: u64| (factor * Fr::ONE.double().pow([32 * (5 + 4 * k)])).into_bigint().0;
    let (low, high) = (multiple(0), multiple(1));
    std::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] })
}
