//! Arithmetic on vectors over 31-bit primes in device memory: `kernels/ntt31/pointwise.cu`. All
//! work runs on a stream.

use super::{
    elements::{ModulusParameters, modulus_parameters},
    evaluate::PolynomialEvaluator31,
    kernels::{Word31Ptr, WordVector, mismatch},
};
use crate::{
    device::{
        BlockShape, DeviceArena, DeviceFault, DevicePtr, DeviceSlice, Gpu, GpuUnavailable, Kernel,
        KernelModule, Stream,
    },
    field::{Arithmetic, Element31, Field31},
    ntt::StridedRows,
};

const THREADS: u32 = 256;
/// Words of a block.
const TILE: u64 = 1024;
/// The most vectors of a launch.
const TERMS_MAX: usize = 8;

/// An operation on each element of its operands.
#[derive(Clone, Copy)]
pub enum WordOperation<'a> {
    /// a + b
    Add([WordVector<'a>; 2]),
    /// a - b
    Subtract([WordVector<'a>; 2]),
    /// a b
    Multiply([WordVector<'a>; 2]),
    /// a b + c
    MultiplyAdd([WordVector<'a>; 3]),
    /// a b - c
    MultiplySubtract([WordVector<'a>; 3]),
    /// 1 / a, and 0 for 0
    Invert(WordVector<'a>),
}

/// A vector times a factor, of a linear combination.
#[derive(Clone, Copy)]
pub struct LinearTerm31<'a> {
    pub factor: Element31,
    pub vector: WordVector<'a>,
}

/// How words are encoded, and what happens to those that are not below the modulus.
#[derive(Debug, Clone, Copy)]
pub struct WordDecodeRule {
    /// Montgomery form; else canonical.
    pub is_montgomery: bool,
    /// Whether larger words are reduced; else they are refused.
    pub reduce: bool,
}

#[rustfmt::skip]
type CombinationKernel31 = Kernel<(
    Word31Ptr, Word31Ptr, Word31Ptr, Word31Ptr, Word31Ptr, Word31Ptr, Word31Ptr, Word31Ptr,
    Word31Ptr, [u32; TERMS_MAX], u64, u32, ModulusParameters,
)>;
/// Parameters: a, b, c, out, count, operation, modulus.
#[rustfmt::skip]
type PointwiseKernel31 = Kernel<(
    Word31Ptr, Option<Word31Ptr>, Option<Word31Ptr>, Word31Ptr, u64, u32, ModulusParameters,
)>;

/// The kernels for vectors over all primes.
pub struct VectorKernels31 {
    pointwise: PointwiseKernel31,
    /// Parameters: eight vectors, out, factors, count, vectors to read, modulus.
    combination: CombinationKernel31,
    /// Parameters: out, count, first, squares of the base, modulus.
    powers: Kernel<(Word31Ptr, u64, u32, [u32; 32], ModulusParameters)>,
    /// Parameters: from, to, length, strides, words.
    copy_rows: Kernel<(Word31Ptr, Word31Ptr, u32, u64, u64, u64)>,
    /// Parameters: words, first bad one, count, is Montgomery form, reduce, modulus.
    decode: Kernel<(Word31Ptr, DevicePtr<u64>, u64, u32, u32, ModulusParameters)>,
    /// Parameters: words, count, modulus.
    encode: Kernel<(Word31Ptr, u64, ModulusParameters)>,
    /// Parameters: words, products, length, chunks, modulus.
    chunk_products: Kernel<(Word31Ptr, Word31Ptr, u64, u32, ModulusParameters)>,
    /// Parameters: words, out, carries, length, chunks, modulus.
    prefix_products: Kernel<(Word31Ptr, Word31Ptr, Word31Ptr, u64, u32, ModulusParameters)>,
    arena: DeviceArena,
    pub evaluator: PolynomialEvaluator31,
}

impl VectorKernels31 {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt31/pointwise")?;
        let block = BlockShape::threads(THREADS);
        let evaluator = PolynomialEvaluator31::load(gpu)?;
        let load = || {
            Ok(Self {
                pointwise: module.kernel("words31_pointwise", block)?,
                combination: module.kernel("words31_linear_combination", block)?,
                powers: module.kernel("words31_powers", block)?,
                copy_rows: module.kernel("words31_copy_rows", block)?,
                decode: module.kernel("words31_decode", block)?,
                encode: module.kernel("words31_encode", block)?,
                chunk_products: module.kernel("words31_chunk_products", block)?,
                prefix_products: module.kernel("words31_prefix_products", block)?,
                arena: gpu.arena().clone(),
                evaluator,
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }

    /// Computes each element of `out`, which may be an operand.
    ///
    /// Shape: all have the same length; none overlaps `out` in part.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn pointwise(
        &self,
        stream: &Stream,
        field: Field31,
        out: WordVector<'_>,
        operation: WordOperation<'_>,
    ) -> Result<(), DeviceFault> {
        let (number, a, b, c) = match operation {
            WordOperation::Add([a, b]) => (0, a, Some(b), None),
            WordOperation::Subtract([a, b]) => (1, a, Some(b), None),
            WordOperation::Multiply([a, b]) => (2, a, Some(b), None),
            WordOperation::MultiplyAdd([a, b, c]) => (3, a, Some(b), Some(c)),
            WordOperation::MultiplySubtract([a, b, c]) => (4, a, Some(b), Some(c)),
            WordOperation::Invert(a) => (5, a, None, None),
        };
        let count = common_length(out, [Some(a), b, c].into_iter().flatten())?;
        let arguments = (a, b, c, out, count, number, modulus_parameters(field));
        self.pointwise.launch(stream, word_grid(count)?, arguments)
    }

    /// out\[i\] = the sum of factors times vectors. Shape and errors: like
    /// [`VectorKernels31::pointwise`].
    pub fn linear_combination(
        &self,
        stream: &Stream,
        field: Field31,
        out: WordVector<'_>,
        terms: &[LinearTerm31<'_>],
    ) -> Result<(), DeviceFault> {
        let count = common_length(out, terms.iter().map(|term| term.vector))?;
        // The first launch overwrites `out`, so it must be the one that reads it as an input.
        let is_out = |term: &LinearTerm31<'_>| term.vector.arena_offset() == out.arena_offset();
        let (of_out, mut left): (Vec<_>, Vec<_>) = terms.iter().copied().partition(is_out);
        let mut launched = Vec::new();
        if !of_out.is_empty() || left.is_empty() {
            let factors = of_out.iter().map(|term| term.factor);
            let factor = factors.fold(Element31::default(), |a, b| field.add(a, b));
            launched.push(LinearTerm31 { factor, vector: out });
        }
        loop {
            launched.extend(left.drain(..left.len().min(TERMS_MAX - launched.len())));
            let vector = |k: usize| launched.get(k).map_or(out, |term| term.vector);
            let word = |k: usize| launched.get(k).map_or(0, |term| bytemuck::cast(term.factor));
            let [v0, v1, v2, v3, v4, v5, v6, v7] = std::array::from_fn(vector);
            let factors = std::array::from_fn(word);
            let read = launched.len() as u32;
            let modulus = modulus_parameters(field);
            let arguments = (v0, v1, v2, v3, v4, v5, v6, v7, out, factors, count, read, modulus);
            self.combination.launch(stream, word_grid(count)?, arguments)?;
            if left.is_empty() {
                return Ok(());
            }
            // The sum so far.
            launched = vec![LinearTerm31 { factor: field.one(), vector: out }];
        }
    }

    /// out\[i\] = first base^i.
    ///
    /// Errors: `KernelMismatch` for 2^32 elements or more; driver errors.
    pub fn powers(
        &self,
        stream: &Stream,
        field: Field31,
        out: WordVector<'_>,
        first: Element31,
        base: Element31,
    ) -> Result<(), DeviceFault> {
        let mut square = base;
        let squares = std::array::from_fn(|_| {
            let word = bytemuck::cast(square);
            square = field.multiply(square, square);
            word
        });
        let count = common_length(out, [])?;
        let arguments = (out, count, bytemuck::cast(first), squares, modulus_parameters(field));
        self.powers.launch(stream, word_grid(count)?, arguments)
    }

    /// Makes each word of `out` the product of the words of its row up to it.
    ///
    /// Shape: like [`VectorKernels31::pointwise`], and `rows` whole rows.
    /// Errors: `OutOfMemory`; like [`VectorKernels31::pointwise`].
    pub fn prefix_products(
        &self,
        stream: &Stream,
        field: Field31,
        out: WordVector<'_>,
        words: WordVector<'_>,
        rows: usize,
    ) -> Result<(), DeviceFault> {
        let count = common_length(out, [words])?;
        if count == 0 {
            return Ok(());
        }
        let length = count / rows.max(1) as u64;
        if length * rows as u64 != count {
            return Err(mismatch("words are not whole rows".into()));
        }
        let modulus = modulus_parameters(field);
        let chunks = length.div_ceil(TILE);
        let blocks = rows * chunks as usize;
        let scratch = self.arena.lease(stream, 4 * blocks as u64)?;
        let products = scratch.all().slice(0, blocks).expect("the lease holds a word per block");
        let (grid, chunks) = (blocks as u32, chunks as u32);
        if chunks > 1 {
            let arguments = (words, products, length, chunks, modulus);
            self.chunk_products.launch(stream, grid, arguments)?;
            self.prefix_products(stream, field, products, products, rows)?;
        }
        let arguments = (words, out, products, length, chunks, modulus);
        self.prefix_products.launch(stream, grid, arguments)
    }

    /// Copies `rows` rows of `length` words.
    ///
    /// Shape: both vectors hold the rows at their strides; they do not overlap.
    /// Errors: `KernelMismatch` if a vector is too short; driver errors.
    pub fn copy_rows(
        &self,
        stream: &Stream,
        to: StridedRows<'_, u32>,
        from: StridedRows<'_, u32>,
        rows: usize,
        length: usize,
    ) -> Result<(), DeviceFault> {
        let words = rows.checked_mul(length).and_then(|words| u32::try_from(words).ok());
        let words = words.filter(|_| to.holds(rows, length) && from.holds(rows, length));
        let words = words.ok_or_else(|| mismatch("rows exceed their vector".into()))?;
        if words == 0 {
            return Ok(());
        }
        let (from_stride, to_stride) = (from.stride as u64, to.stride as u64);
        let words = u64::from(words);
        let arguments = (from.vector, to.vector, length as u32, from_stride, to_stride, words);
        self.copy_rows.launch(stream, word_grid(words)?, arguments)
    }

    /// Decodes words in place. `refused`, initially zero, gets the complement of the index of the
    /// first word that is refused.
    ///
    /// Errors: `KernelMismatch` for 2^32 elements or more; driver errors.
    pub fn decode(
        &self,
        stream: &Stream,
        field: Field31,
        words: WordVector<'_>,
        rule: WordDecodeRule,
        refused: DeviceSlice<'_, u64>,
    ) -> Result<(), DeviceFault> {
        let WordDecodeRule { is_montgomery, reduce } = rule;
        let count = common_length(words, [])?;
        let modulus = modulus_parameters(field);
        let arguments = (words, refused, count, is_montgomery.into(), reduce.into(), modulus);
        self.decode.launch(stream, word_grid(count)?, arguments)
    }

    /// Converts words from Montgomery form to canonical integers, in place. Errors: like
    /// [`VectorKernels31::decode`].
    pub fn encode(
        &self,
        stream: &Stream,
        field: Field31,
        words: WordVector<'_>,
    ) -> Result<(), DeviceFault> {
        let count = common_length(words, [])?;
        self.encode.launch(stream, word_grid(count)?, (words, count, modulus_parameters(field)))
    }
}

fn word_grid(words: u64) -> Result<u32, DeviceFault> {
    let blocks = u32::try_from(words.div_ceil(TILE));
    blocks.map_err(|_| mismatch("the vectors exceed the limit of one launch".into()))
}

/// The length of all vectors, of which each is `out` or does not overlap it.
fn common_length<'a>(
    out: WordVector<'a>,
    inputs: impl IntoIterator<Item = WordVector<'a>>,
) -> Result<u64, DeviceFault> {
    for input in inputs {
        let distance = input.arena_offset().abs_diff(out.arena_offset());
        let overlaps = distance != 0 && distance < 4 * out.len() as u64;
        if overlaps || input.len() != out.len() {
            return Err(mismatch("vectors overlap or have different lengths".into()));
        }
    }
    let count = u32::try_from(out.len());
    count.map(u64::from).map_err(|_| mismatch("a vector has 2^32 elements or more".into()))
}
