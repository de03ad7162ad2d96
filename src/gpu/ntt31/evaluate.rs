//! Values of polynomials at a point of the field, or of its extension of degree 8 for checks, from
//! coefficients or from values at roots of unity: `kernels/ntt31/evaluate.cu`.

use bytemuck::Pod;

use super::{
    elements::{ModulusParameters, modulus_parameters, root_of_unity},
    kernels::{Word31Ptr, WordVector, mismatch},
};
use crate::{
    curve::reverse_bits,
    device::{
        BlockShape, DeviceArena, DeviceFault, DeviceLease, DevicePtr, Gpu, GpuUnavailable, Kernel,
        KernelModule, StagingRing, Stream,
    },
    field::{Arithmetic, Element31, Extension, ExtensionField, Field31, VectorElements},
};

const LG_THREADS: u32 = 8;
/// log2 of the words of a thread: a multiple of the kernel's group of four, and at most enough to
/// amortise the sum of a block.
const LG_PER_THREAD_MIN: u32 = 2;
const LG_PER_THREAD_MAX: u32 = 6;

/// Parameters: words, powers, sums, length, chunks, words per thread, lg_low, generator, modulus.
type EvaluateKernel31 =
    Kernel<(Word31Ptr, Word31Ptr, DevicePtr<u64>, u64, u32, u32, u32, u32, ModulusParameters)>;
/// Parameters: words, places, sums, powers of the point, length, chunks, words per thread, lg_low,
/// characteristic polynomial, one, modulus.
#[rustfmt::skip]
type InterpolateKernel31 = Kernel<(
    Word31Ptr, Word31Ptr, DevicePtr<u64>, Word31Ptr, u64, u32, u32, u32, [u32; 8], u32,
    ModulusParameters,
)>;

/// Rows of equal length, one after another.
#[derive(Clone, Copy)]
pub struct EvaluatedRows<'a> {
    pub words: WordVector<'a>,
    pub rows: usize,
    /// log2 of the length of rows in bit-reversed order; `None` in natural order, for any length.
    pub lg_reversed: Option<u32>,
}

pub struct PolynomialEvaluator31 {
    in_field: EvaluateKernel31,
    in_extension: EvaluateKernel31,
    interpolate: InterpolateKernel31,
    /// Parameters: sums, out, count, modulus.
    reduce: Kernel<(DevicePtr<u64>, Word31Ptr, u64, ModulusParameters)>,
    arena: DeviceArena,
    ring: StagingRing,
    resident_blocks: u64,
}

/// How a row is divided: into chunks, one per block, whose number has a low and a high digit.
struct RowChunks {
    length: u64,
    lg_per_thread: u32,
    chunks: u64,
    lg_low: u32,
    lg_high: u32,
}

impl PolynomialEvaluator31 {
    pub(super) fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt31/evaluate")?;
        let block = BlockShape::threads(1 << LG_THREADS);
        let load = || {
            let in_extension: EvaluateKernel31 = module.kernel("words31_evaluate_8", block)?;
            let resident = in_extension.resident_blocks()?;
            Ok(Self {
                in_field: module.kernel("words31_evaluate_1", block)?,
                in_extension,
                interpolate: module.kernel("words31_interpolate", block)?,
                reduce: module.kernel("words31_reduce", block)?,
                arena: gpu.arena().clone(),
                ring: gpu.ring().clone(),
                resident_blocks: u64::from(gpu.identity().limits.multiprocessors * resident),
            })
        };
        load().map_err(|fault| GpuUnavailable::Device { index: gpu.identity().index, fault })
    }

    /// out\[r\] = the value of row r, coefficients of a polynomial, at `point`.
    ///
    /// Shape: `out` has a word for each row.
    /// Errors: `OutOfMemory`; `KernelMismatch` if the shape is wrong; driver errors.
    pub fn evaluate(
        &self,
        stream: &Stream,
        field: Field31,
        out: WordVector<'_>,
        rows: EvaluatedRows<'_>,
        point: Element31,
    ) -> Result<(), DeviceFault> {
        if out.len() != rows.rows {
            return Err(mismatch("there is no place for each value".into()));
        }
        let chunks = self.chunks(rows)?;
        let powers =
            chunks.table(rows.lg_reversed, field.one(), point, |a, b| field.multiply(a, b));
        let powers = self.upload(stream, &powers)?;
        let sums = self.arena.lease(stream, 8 * rows.rows.max(1) as u64)?;
        let one = bytemuck::cast(field.one());
        let modulus = modulus_parameters(field);
        self.launch(&self.in_field, stream, (rows, &chunks), (&powers, &sums), (one, modulus))?;
        let count = rows.rows as u64;
        let sums = sums.all();
        let grid = u32::try_from(count.div_ceil(1 << LG_THREADS)).map_err(|_| too_many())?;
        self.reduce.launch(stream, grid, (sums, out, count, modulus))
    }

    /// The values of rows, coefficients of polynomials, at `point`: eight sums for each row, of
    /// coefficients of 1, X, ..., X^7 in Montgomery form, not reduced.
    ///
    /// Errors: like [`PolynomialEvaluator31::evaluate`].
    pub fn evaluate_in_extension(
        &self,
        stream: &Stream,
        extension: ExtensionField,
        rows: EvaluatedRows<'_>,
        point: &Extension,
    ) -> Result<DeviceLease, DeviceFault> {
        let chunks = self.chunks(rows)?;
        let base = extension.base;
        let multiply = |a: Extension, b: Extension| extension.multiply(&a, &b);
        let powers = chunks.table(rows.lg_reversed, extension.one(), *point, multiply);
        let powers = self.upload(stream, &powers)?;
        let sums = self.arena.lease(stream, 64 * rows.rows.max(1) as u64)?;
        let arguments = (bytemuck::cast(base.generator()), modulus_parameters(base));
        self.launch(&self.in_extension, stream, (rows, &chunks), (&powers, &sums), arguments)?;
        Ok(sums)
    }

    /// The values at `point`, which is not in the field itself, of the polynomials whose values at
    /// the powers of the root of unity of their order are the rows: sums as those of
    /// [`PolynomialEvaluator31::evaluate_in_extension`].
    ///
    /// Shape: the length of rows is a power of two, within the field's two-adicity.
    /// Errors: like [`PolynomialEvaluator31::evaluate`].
    pub fn interpolate(
        &self,
        stream: &Stream,
        extension: ExtensionField,
        rows: EvaluatedRows<'_>,
        point: &Extension,
    ) -> Result<DeviceLease, DeviceFault> {
        let chunks = self.chunks(rows)?;
        let base = extension.base;
        let lg_n = chunks.length.max(1).ilog2();
        if chunks.length != 1 << lg_n || lg_n > base.id().two_adicity() {
            return Err(mismatch("no root of unity has the order of the rows".into()));
        }
        let root = root_of_unity(base, lg_n, false);
        let multiply = |a, b| base.multiply(a, b);
        let places =
            self.upload(stream, &chunks.table(rows.lg_reversed, base.one(), root, multiply))?;
        let powers = self.upload(stream, &extension.interpolation_weights(point, lg_n))?;
        let sums = self.arena.lease(stream, 64 * rows.rows.max(1) as u64)?;
        let polynomial = bytemuck::cast(extension.characteristic_polynomial(point));
        let one = bytemuck::cast(base.one());
        let modulus = modulus_parameters(base);
        let RowChunks { length, lg_per_thread, chunks: count, lg_low, .. } = chunks;
        let chunks = count as u32;
        let per_thread = 1 << lg_per_thread;
        let arguments = (
            rows.words,
            places.all(),
            sums.all(),
            powers.all(),
            length,
            chunks,
            per_thread,
            lg_low,
            polynomial,
            one,
            modulus,
        );
        self.interpolate.launch(stream, grid(rows, count)?, arguments)?;
        Ok(sums)
    }

    fn launch(
        &self,
        kernel: &EvaluateKernel31,
        stream: &Stream,
        (rows, chunks): (EvaluatedRows<'_>, &RowChunks),
        (powers, sums): (&DeviceLease, &DeviceLease),
        (generator, modulus): (u32, ModulusParameters),
    ) -> Result<(), DeviceFault> {
        let &RowChunks { length, lg_per_thread, chunks: count, lg_low, .. } = chunks;
        let powers = powers.all();
        let sums = sums.all();
        let per_thread = 1 << lg_per_thread;
        let chunks = count as u32;
        let arguments =
            (rows.words, powers, sums, length, chunks, per_thread, lg_low, generator, modulus);
        kernel.launch(stream, grid(rows, count)?, arguments)
    }

    fn chunks(&self, rows: EvaluatedRows<'_>) -> Result<RowChunks, DeviceFault> {
        let length = rows.words.len().checked_div(rows.rows).unwrap_or(0) as u64;
        let is_whole = length * rows.rows as u64 == rows.words.len() as u64;
        let fits = rows.lg_reversed.is_none_or(|lg_n| length == 1 << lg_n);
        if !is_whole || !fits || u32::try_from(rows.words.len()).is_err() {
            return Err(mismatch("the words are not whole rows".into()));
        }
        Ok(RowChunks::new(length, rows.rows as u64, self.resident_blocks))
    }

    fn upload<T: Pod>(&self, stream: &Stream, table: &[T]) -> Result<DeviceLease, DeviceFault> {
        let bytes = bytemuck::cast_slice(table);
        let lease = self.arena.lease(stream, bytes.len() as u64)?;
        self.ring.upload(stream, lease.all()).write(bytes)?;
        Ok(lease)
    }
}

fn grid(rows: EvaluatedRows<'_>, chunks: u64) -> Result<u32, DeviceFault> {
    u32::try_from(rows.rows as u64 * chunks).map_err(|_| too_many())
}

fn too_many() -> DeviceFault {
    mismatch("the rows exceed the limit of one launch".into())
}

impl RowChunks {
    /// Chunks for `blocks` blocks that are resident, if threads then have enough words.
    fn new(length: u64, rows: u64, blocks: u64) -> Self {
        let per_thread = ((rows * length) >> LG_THREADS) / blocks.max(1);
        let lg_per_thread = per_thread.max(1).ilog2().clamp(LG_PER_THREAD_MIN, LG_PER_THREAD_MAX);
        let chunks = length.div_ceil(1 << (LG_THREADS + lg_per_thread)).max(1);
        let lg_chunks = chunks.next_power_of_two().ilog2();
        let lg_low = lg_chunks.div_ceil(2);
        Self { length, lg_per_thread, chunks, lg_low, lg_high: lg_chunks - lg_low }
    }

    /// The powers of `base` that belong to each digit of a word's place in its row: of the thread,
    /// the step, and the chunk.
    fn table<T: Copy>(
        &self,
        lg_reversed: Option<u32>,
        one: T,
        base: T,
        multiply: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let mut table = Vec::new();
        let mut lg_place = 0;
        for lg_count in [LG_THREADS, self.lg_per_thread, self.lg_low, self.lg_high] {
            // A row may have fewer bits than the digits.
            let used = lg_reversed.map_or(lg_count, |lg| lg_count.min(lg.saturating_sub(lg_place)));
            let lg_step = lg_reversed.map_or(lg_place, |lg| lg.saturating_sub(lg_place + used));
            let step = (0..lg_step).fold(base, |power, _| multiply(power, power));
            let powers = std::iter::successors(Some(one), |power| Some(multiply(*power, step)));
            let powers: Vec<_> = powers.take(1 << used).collect();
            table.extend((0..1_usize << lg_count).map(|digit| match lg_reversed {
                None => powers[digit],
                Some(_) => powers[reverse_bits(digit % powers.len(), used)],
            }));
            lg_place += lg_count;
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exponent of each place, from tables of exponents.
    fn exponents(chunks: &RowChunks, lg_reversed: Option<u32>) -> Vec<u64> {
        let table = chunks.table(lg_reversed, 0_u64, 1, |a, b| a + b);
        let per_thread = 1 << chunks.lg_per_thread;
        let low = 1 << chunks.lg_low;
        let [threads, steps, low_digits] = [0, 256, 256 + per_thread];
        let exponent = |place: usize| {
            let thread = place % 256;
            let step = place / 256 % per_thread;
            let chunk = place / 256 / per_thread;
            table[threads + thread]
                + table[steps + step]
                + table[low_digits + chunk % low]
                + table[low_digits + low + chunk / low]
        };
        (0..chunks.length as usize).map(exponent).collect()
    }

    #[test]
    fn tables_give_each_place_its_exponent() {
        for (length, rows, blocks) in [(1, 1, 8), (1000, 3, 8), (5000, 1, 1), (200_000, 1, 8)] {
            let chunks = RowChunks::new(length, rows, blocks);
            let expected: Vec<_> = (0..length).collect();
            assert_eq!(exponents(&chunks, None), expected, "{length}");
        }
        for lg_n in [0, 1, 7, 8, 9, 10, 11, 16, 18] {
            let chunks = RowChunks::new(1 << lg_n, 1, 8);
            let reversed = |place| reverse_bits(place, lg_n) as u64;
            let expected: Vec<_> = (0..1 << lg_n).map(reversed).collect();
            assert_eq!(exponents(&chunks, Some(lg_n)), expected, "2^{lg_n}");
        }
    }
}
