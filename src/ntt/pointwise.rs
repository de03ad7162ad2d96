//! Vectors of elements: what provers need between transforms. Element by element, in place or not,
//! and polynomials at a point. All of it runs on a stream, and nothing waits for the device.

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
/// Eight bytes of a factor.
type W = u64;
/// a, b, out, count.
type Binary = Kernel<(P, P, P, u64)>;
/// a, out, count, two kept multiples.
type Scale = Kernel<(P, P, u64, W, W, W, W, W, W, W, W)>;
/// a, b, c, out, count, factor.
type Quotient = Kernel<(P, P, P, P, u64, W, W, W, W)>;
/// out, count, first, base.
type PowersBegin = Kernel<(P, u32, W, W, W, W, W, W, W, W)>;
/// out, have, count, each, two kept multiples.
type Powers = Kernel<(P, u64, u64, u32, W, W, W, W, W, W, W, W)>;
/// in, out, before, count, each.
type Invert = Kernel<(P, P, P, u64, u32)>;

/// Threads of a block, as many elements at a time: 2^24 on an H200 go at 4.1 to 4.3 TB/s, of 4.8
/// that its memory has. Other widths were not measured.
const THREADS: u32 = 128;
/// How many times as many powers there are after a launch: a chain of as many products a thread.
/// 2^24 on an H200 take 0.27 ms, 0.23 by their products alone; other lengths were not measured.
const POWERS_EACH: u32 = 16;
/// Threads of a block that shares an inversion.
const INVERT_THREADS: u32 = 256;
/// Elements of a thread at most: three products each, and 9 of the block's tree and inversion
/// divided by them. Fewer where blocks can then compute while others wait for their inversion.
/// Chosen by that count: 2^24 on an H200 go at 983 GB/s, within a tenth of it. Others were not
/// measured.
const INVERT_EACH_MAX: u64 = 32;

/// The kernels of one device that work on vectors.
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
    /// Blocks that invert at a time.
    invert_blocks: u64,
}

/// The polynomial X^n - 1, which vanishes on a domain of n elements, on a coset of this domain:
/// there it is the same everywhere, and not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vanishing {
    inverse: Fr,
}

impl Vanishing {
    /// On the coset of `generator` times the powers of a root of order 2^lg_n.
    ///
    /// Errors: `Invalid` where the polynomial is zero there, since the coset is the domain itself.
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
    /// Errors: kernels that are not for this device; what the driver says.
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
    /// Shape: all as long; `out` may be `a` or `b`, and overlaps them not in part.
    /// Errors: `Kernel` where the shape is another; what the driver says.
    pub fn multiply(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.multiply, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] + b\[i\]. Shape and errors: as [`Pointwise::multiply`].
    pub fn add(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.add, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] - b\[i\]. Shape and errors: as [`Pointwise::multiply`].
    pub fn subtract(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        b: Vector<'_>,
    ) -> Result<(), Fault> {
        binary(&self.subtract, stream, out, a, b)
    }

    /// out\[i\] = a\[i\] factor. Shape and errors: as [`Pointwise::multiply`].
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

    /// out\[i\] = a\[i\] over the vanishing polynomial, where `a` is values on its coset in any
    /// order. Shape and errors: as [`Pointwise::multiply`].
    pub fn divide(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        a: Vector<'_>,
        vanishing: &Vanishing,
    ) -> Result<(), Fault> {
        self.scale(stream, out, a, vanishing.inverse)
    }

    /// out\[i\] = (a\[i\] b\[i\] - c\[i\]) over the vanishing polynomial, where these are values on
    /// its coset in the same order: the quotient of Groth16. Shape and errors: as
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
    /// Errors: what the driver says.
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

    /// out\[i\] = 1 / a\[i\], and 0 where that is 0. In place it takes memory for as many elements
    /// beside, which is given back at once, and zeroed.
    ///
    /// Shape: as [`Pointwise::multiply`].
    /// Errors: `Full` in place; as [`Pointwise::multiply`].
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

    /// out\[r\] = the sum of coefficients\[r n + i\] point^i over i < n: polynomials, one a row of
    /// n coefficients in natural order, at a point. It takes memory for 256 elements and one for
    /// some thousand coefficients beside, which is given back at once, and zeroed.
    ///
    /// Shape: `coefficients` is n elements for each of `out`, any n, and apart from it.
    /// Errors: `Full`; `Kernel` where the shape is another; what the driver says.
    pub fn evaluate(
        &self,
        stream: &Stream,
        out: Vector<'_>,
        coefficients: Vector<'_>,
        point: Fr,
    ) -> Result<(), Fault> {
        self.evaluate.run(stream, out, coefficients, point)
    }

    /// Elements of a thread, so that all turns of blocks on the device are full ones.
    fn invert_each(&self, count: u64) -> u64 {
        let turn = u64::from(INVERT_THREADS) * self.invert_blocks;
        let turns = count.div_ceil(turn * INVERT_EACH_MAX).max(1);
        count.div_ceil(turn * turns).max(1)
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

/// All as long, and each in the same place as `out` or apart from it.
fn fits(out: Vector<'_>, given: &[Vector<'_>]) -> Result<(), Fault> {
    let at = |vector: &Vector<'_>| vector.arena_offset();
    let bytes = (out.len() * size_of::<Element>()) as u64;
    for vector in given {
        if vector.len() != out.len() {
            return Err(misuse("vectors of different lengths"));
        }
        let apart = at(vector).abs_diff(at(&out));
        if apart != 0 && apart < bytes {
            return Err(misuse("vectors that overlap in part"));
        }
    }
    Ok(())
}

fn misuse(problem: &str) -> Fault {
    Fault::Kernel { kernel: "fr_pointwise".into(), problem: problem.into() }
}

fn montgomery(factor: Fr) -> [u64; 4] {
    factor.0.0
}

/// The integers factor 2^(32 (5 + 4 k)): see `kernels/field/fr.cuh`.
fn two_multiples(factor: Fr) -> [u64; 8] {
    let multiple = |k: u64| (factor * Fr::ONE.double().pow([32 * (5 + 4 * k)])).into_bigint().0;
    let (low, high) = (multiple(0), multiple(1));
    std::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] })
}
