//! Vector operations that provers need between transforms: element-wise arithmetic, in place or
//! not, and polynomials at a point. All run on a stream and never wait for the device.

mod evaluate;

use ark_ff::{AdditiveGroup, Field, PrimeField};

use self::evaluate::Evaluate;
use super::Element;
use crate::{
    curve::Fr,
    device::{Arena, Block, Fault, Gpu, Kernel, Lease, Module, Ptr, Span, Stream, Unusable},
    error::{Error, Problem, Result},
};

/// A vector in device memory: canonical elements in Montgomery form.
pub type Vector<'a> = Span<'a, Element>;

type P = Ptr<Element>;
/// Eight bytes of a constant.
type W = u64;
/// Parameters: a, b, out, count.
type Binary = Kernel<(P, P, P, u64)>;
/// Parameters: a, out, count, two precomputed multiples.
type Scale = Kernel<(P, P, u64, W, W, W, W, W, W, W, W)>;
/// Parameters: a, b, c, out, count, factor.
type Quotient = Kernel<(P, P, P, P, u64, W, W, W, W)>;
/// Parameters: out, count, first, base.
type PowersBegin = Kernel<(P, u32, W, W, W, W, W, W, W, W)>;
/// Parameters: out, have, count, each, two precomputed multiples.
type Powers = Kernel<(P, u64, u64, u32, W, W, W, W, W, W, W, W)>;
/// Parameters: in, out, before, count, each.
type Invert = Kernel<(P, P, P, u64, u32)>;

/// Threads, and elements, per block: 2^24 elements reach 4.1 to 4.3 TB/s of an H200's 4.8. Other
/// sizes were not measured.
const THREADS: u32 = 128;
/// The growth of the powers per launch: each thread computes a chain of this many products. 2^24
/// take 0.27 ms on an H200, of which the products are 0.23; other lengths were not measured.
const POWERS_EACH: u32 = 16;
/// Threads of a block that shares an inversion.
const INVERT_THREADS: u32 = 256;
/// The most elements per thread, to amortise the block's tree and inversion: three products per
/// element, plus 9 divided by their number. Fewer if that lets blocks compute while others wait for
/// their inversion. 2^24 elements reach 983 GB/s on an H200; other values were not measured.
const INVERT_EACH_MAX: u64 = 32;

/// The vector kernels of one device.
pub struct Pointwise {
    multiply: Binary,
    add: Binary,
    subtract: Binary,
    scale: Scale,
    quotient: Quotient,
    powers_begin: PowersBegin,
    powers: Powers,
    invert: Invert,
    evaluate: Evaluate,
    arena: Arena,
    /// Resident blocks of the inversion kernel.
    invert_blocks: u64,
}

/// The vanishing polynomial X^n - 1 of a domain of n elements, on a coset of that domain, where it
/// has the same nonzero value everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vanishing {
    inverse: Fr,
}

impl Vanishing {
    /// On the coset of `generator` times the powers of a root of order 2^lg_n.
    ///
    /// Errors: `Invalid` if the coset is the domain itself, where the polynomial is zero.
    pub fn on_coset(lg_n: u32, generator: Fr) -> Result<Self> {
        let power = (0..lg_n).fold(generator, |power, _| power.square());
        let inverse = (power - Fr::ONE).inverse();
        let inverse = inverse.ok_or_else(|| Error::field("coset", Problem::Zero))?;
        Ok(Self { inverse })
    }
}

impl Pointwise {
    /// Loads the kernels.
    ///
    /// Errors: kernels that do not fit this device; driver errors.
    pub fn load(gpu: &Gpu) -> Result<Self, Unusable> {
        let identity = gpu.identity();
        let failed = |fault| Unusable::Device { index: identity.index, fault };
        let module = Module::load(gpu.context(), "ntt/pointwise")?;
        let block = Block::of(THREADS);
        let inverting = Module::load(gpu.context(), "ntt/invert")?;
        let invert: Invert =
            inverting.kernel("fr_invert", Block::of(INVERT_THREADS)).map_err(failed)?;
        let invert_resident = invert.resident_blocks().map_err(failed)?;
        Ok(Self {
            multiply: module.kernel("fr_multiply", block).map_err(failed)?,
            add: module.kernel("fr_add", block).map_err(failed)?,
            subtract: module.kernel("fr_subtract", block).map_err(failed)?,
            scale: module.kernel("fr_scale", block).map_err(failed)?,
            quotient: module.kernel("fr_quotient", block).map_err(failed)?,
            powers_begin: module.kernel("fr_powers_begin", block).map_err(failed)?,
            powers: module.kernel("fr_powers", block).map_err(failed)?,
            invert,
            evaluate: Evaluate::load(gpu, &module)?,
            arena: gpu.arena().clone(),
            invert_blocks: u64::from(identity.limits.multiprocessors * invert_resident),
        })
    }

    /// out\[i\] = a\[i\] b\[i\].
    ///
    /// Shape: all have the same length; `out` may be `a` or `b`, but must not overlap them in part.
    /// Errors: `Kernel` if the shape is wrong; driver errors.
    pub fn multiply(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.multiply, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] + b\[i\]. Shape and errors: like [`Pointwise::multiply`].
    pub fn add(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.add, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] - b\[i\]. Shape and errors: like [`Pointwise::multiply`].
    pub fn subtract(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.subtract, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] factor. Shape and errors: like [`Pointwise::multiply`].
    pub fn scale(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        factor: Fr,
    ) -> Result<(), Fault> {
        fits(out, &[a])?;
        let [w0, w1, w2, w3, w4, w5, w6, w7] = two_multiples(factor);
        let given = (a, out, out.len() as u64, w0, w1, w2, w3, w4, w5, w6, w7);
        self.scale.launch(stream, grid(out.len() as u64)?, given)
    }

    /// out\[i\] = a\[i\] divided by the vanishing polynomial, for values `a` on its coset in any
    /// order. Shape and errors: like [`Pointwise::multiply`].
    pub fn divide(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        vanishing: &Vanishing,
    ) -> Result<(), Fault> {
        self.scale(stream, out, a, vanishing.inverse)
    }

    /// out\[i\] = (a\[i\] b\[i\] - c\[i\]) divided by the vanishing polynomial, for values on its
    /// coset in the same order: the quotient of Groth16. Shape and errors: like
    /// [`Pointwise::multiply`].
    pub fn quotient(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        [a, b, c]: [Vector<'_>; 3],
        vanishing: &Vanishing,
    ) -> Result<(), Fault> {
        fits(out, &[a, b, c])?;
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
        out: Vector<'_>,
        first: Fr,
        base: Fr,
    ) -> Result<(), Fault> {
        let count = out.len() as u64;
        let mut have = count.min(THREADS.into());
        let ([f0, f1, f2, f3], [b0, b1, b2, b3]) = (montgomery(first), montgomery(base));
        let given = (out, have as u32, f0, f1, f2, f3, b0, b1, b2, b3);
        self.powers_begin.launch(stream, grid(have)?, given)?;
        while have < count {
            let [w0, w1, w2, w3, w4, w5, w6, w7] = two_multiples(base.pow([have]));
            let given = (out, have, count, POWERS_EACH, w0, w1, w2, w3, w4, w5, w6, w7);
            self.powers.launch(stream, grid(have)?, given)?;
            have = count.min(have * u64::from(POWERS_EACH));
        }
        Ok(())
    }

    /// out\[i\] = 1 / a\[i\], and 0 if a\[i\] is 0. In place it leases memory for as many elements,
    /// which is zeroed and returned at once.
    ///
    /// Shape: like [`Pointwise::multiply`].
    /// Errors: `Full` in place; like [`Pointwise::multiply`].
    pub fn invert(&self, stream: &Stream, out: Vector<'_>, a: Vector<'_>) -> Result<(), Fault> {
        fits(out, &[a])?;
        let count = out.len() as u64;
        let each = self.invert_each(count);
        let blocks = count.div_ceil(u64::from(INVERT_THREADS) * each);
        let beside = if out.arena_offset() == a.arena_offset() && each > 1 {
            Some(self.arena.lease(stream, count * size_of::<Element>() as u64)?)
        } else {
            None
        };
        let before = beside.as_ref().map_or(out, Lease::all);
        let grid = u32::try_from(blocks).map_err(|_| misuse("too many elements"))?;
        self.invert.launch(stream, grid, (a, out, before, count, each as u32))
    }

    /// out\[r\] = the sum of coefficients\[r n + i\] point^i over i < n: evaluates polynomials, one
    /// per row of n coefficients in natural order, at a point. It leases memory for 256 elements
    /// plus one per about a thousand coefficients, which is zeroed and returned at once.
    ///
    /// Shape: `coefficients` has n elements for each of `out`, for any n, and does not overlap it.
    /// Errors: `Full`; `Kernel` if the shape is wrong; driver errors.
    pub fn evaluate(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        coefficients: Vector<'_>,
        point: Fr,
    ) -> Result<(), Fault> {
        self.evaluate.run(stream, out, coefficients, point)
    }

    /// Elements per thread, so that every wave of blocks fills the device.
    fn invert_each(&self, count: u64) -> u64 {
        let wave = u64::from(INVERT_THREADS) * self.invert_blocks;
        let waves = count.div_ceil(wave * INVERT_EACH_MAX).max(1);
        count.div_ceil(wave * waves).max(1)
    }
}

fn binary(
    kernel: &Binary,
    stream: &Stream,
    out: Vector<'_>,
    a: Vector<'_>,
    b: Vector<'_>,
) -> Result<(), Fault> {
    fits(out, &[a, b])?;
    let count = out.len() as u64;
    kernel.launch(stream, grid(count)?, (a, b, out, count))
}

fn grid(count: u64) -> Result<u32, Fault> {
    let blocks = count.div_ceil(THREADS.into());
    u32::try_from(blocks).map_err(|_| misuse("too many elements"))
}

/// Checks that all vectors have the same length, and that each is `out` or does not overlap it.
fn fits(out: Vector<'_>, given: &[Vector<'_>]) -> Result<(), Fault> {
    let at = |vector: &Vector<'_>| vector.arena_offset();
    let bytes = (out.len() * size_of::<Element>()) as u64;
    for vector in given {
        if vector.len() != out.len() {
            return Err(misuse("vectors have different lengths"));
        }
        let apart = at(vector).abs_diff(at(&out));
        if apart != 0 && apart < bytes {
            return Err(misuse("vectors overlap in part"));
        }
    }
    Ok(())
}

fn misuse(problem: &str) -> Fault {
    Fault::KernelMismatch { kernel: "fr_pointwise".into(), problem: problem.into() }
}

fn montgomery(factor: Fr) -> [u64; 4] {
    factor.0.0
}

/// The precomputed multiples factor 2^(32 (5 + 4 k)): see `kernels/field/fr.cuh`.
fn two_multiples(factor: Fr) -> [u64; 8] {
    let multiple = |k: u64| (factor * Fr::ONE.double().pow([32 * (5 + 4 * k)])).into_bigint().0;
    let (low, high) = (multiple(0), multiple(1));
    std::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] })
}
