//! Integers and matrices of bits. The same code computes steps of programs, so that the test covers
//! what is served.

use std::sync::Arc;

use super::{
    super::{CudaEngine, EliminationInput, vector::GpuVector, vectors::GpuVectors},
    sizes::{SelfTestElimination, SelfTestFactors},
    verdict::SelfTestVerdict,
};
use crate::{
    curve::scalars::ScalarEncoding,
    device::DeviceFault,
    engines::{EncodedScalars, JobControl},
    error::{Error, Result},
    field::FieldId,
    gf2::{self, BitMatrix},
};

/// The steps of programs on an engine's GPU.
#[derive(Clone, Copy)]
pub struct StepTest<'e> {
    pub engine: &'e Arc<CudaEngine>,
    pub gpu: usize,
}

impl StepTest<'_> {
    pub fn test_product(
        &self,
        verdict: &SelfTestVerdict<'_>,
        factors: &SelfTestFactors,
    ) -> Result<(), DeviceFault> {
        let SelfTestFactors { rows, a, b } = factors;
        let job = || format!("{rows} products of integers of {a} and {b} limbs");
        verdict.add(job, self.multiplies(factors))
    }

    pub fn test_square(
        &self,
        verdict: &SelfTestVerdict<'_>,
        factors: &SelfTestFactors,
    ) -> Result<(), DeviceFault> {
        let SelfTestFactors { rows, a, .. } = factors;
        let job = || format!("{rows} squares of integers of {a} limbs");
        verdict.add(job, self.squares(factors))
    }

    pub fn test_eliminations(
        &self,
        verdict: &SelfTestVerdict<'_>,
        size: &SelfTestElimination,
    ) -> Result<(), DeviceFault> {
        let SelfTestElimination { rows, columns, pivots } = size;
        let job = || format!("an echelon form of {rows} rows of {columns} bits");
        verdict.add(job, self.echelon_is_right(size))?;
        let job = || format!("a reduction of {rows} rows of {columns} bits by {pivots} pivots");
        verdict.add(job, self.reduction_is_right(size))
    }

    fn vectors(&self) -> Result<GpuVectors> {
        GpuVectors::on(self.engine.clone(), self.gpu, JobControl::default())
    }

    /// Whether (2^(32 a) - 1) x is 2^(32 a) x - x, and that plus x is 2^(32 a) x.
    fn multiplies(&self, factors: &SelfTestFactors) -> Result<bool> {
        let SelfTestFactors { rows, a, b } = *factors;
        let mut gpu = self.vectors()?;
        let x = random_words(rows * b);
        let ones = upload_limbs(&mut gpu, &vec![u32::MAX; rows * a], rows)?;
        let factor = upload_limbs(&mut gpu, &x, rows)?;
        let product = gpu.multiply_integers(&ones, Some(&factor))?.vector;
        let sum = gpu.sum_integers(&[(&product, 1), (&factor, 1)], a + b)?;
        let (mut products, mut sums) = (Vec::new(), Vec::new());
        for x in x.chunks(b) {
            let mut shifted = vec![0; a];
            shifted.extend_from_slice(x);
            products.extend(difference(&shifted, x));
            sums.extend(shifted);
        }
        Ok(*gpu.read_limbs(&product)? == products && *gpu.read_limbs(&sum)? == sums)
    }

    /// Whether the square of 2^(32 a) - 1 is 2^(64 a) - 2^(32 a + 1) + 1.
    fn squares(&self, factors: &SelfTestFactors) -> Result<bool> {
        let SelfTestFactors { rows, a, .. } = *factors;
        let mut gpu = self.vectors()?;
        let ones = upload_limbs(&mut gpu, &vec![u32::MAX; rows * a], rows)?;
        let square = gpu.multiply_integers(&ones, None)?.vector;
        let mut expected = vec![0; a];
        expected.resize(2 * a, u32::MAX);
        (expected[0], expected[a]) = (1, u32::MAX - 1);
        Ok(*gpu.read_limbs(&square)? == expected.repeat(rows))
    }

    fn echelon_is_right(&self, size: &SelfTestElimination) -> Result<bool> {
        let rows = matrix(size.rows, size.columns, |_| 0)?;
        let expected = self.on_host(|| gf2::echelon(rows.clone(), &|_| true))?.matrix;
        self.eliminates(None, &rows, &expected)
    }

    fn reduction_is_right(&self, size: &SelfTestElimination) -> Result<bool> {
        let &SelfTestElimination { rows, columns, pivots } = size;
        let pivots = matrix(pivots, columns, |pivot| pivot * columns / pivots + 1)?;
        let rows = matrix(rows, columns, |_| 0)?;
        let expected = self.on_host(|| gf2::reduce(&pivots, rows.clone(), &|_| true))?.rows;
        self.eliminates(Some(&pivots), &rows, &expected)
    }

    fn on_host<T: Send, E: ToString + Send>(
        &self,
        eliminate: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T> {
        let done = self.engine.cpu.threads().install(eliminate);
        done.map_err(|error| Error::Internal(error.to_string()))
    }

    fn eliminates(
        &self,
        pivots: Option<&BitMatrix>,
        rows: &BitMatrix,
        expected: &BitMatrix,
    ) -> Result<bool> {
        let mut gpu = self.vectors()?;
        let columns = rows.columns() as u64;
        let pivots = pivots.map(|pivots| upload_bits(&mut gpu, pivots)).transpose()?;
        let rows = upload_bits(&mut gpu, rows)?;
        let begun = gpu.begin_elimination(EliminationInput { pivots, rows, columns })?;
        let Ok(mut elimination) = begun else { return Ok(false) };
        let reduced = loop {
            if let Some(reduced) = elimination.launch_next(&gpu)? {
                break reduced;
            }
        };
        Ok(*gpu.read(reduced.bytes())? == bytemuck::cast_slice::<_, u8>(expected.words()))
    }
}

fn upload_limbs(gpu: &mut GpuVectors, limbs: &[u32], rows: usize) -> Result<GpuVector> {
    let bytes: &[u8] = bytemuck::cast_slice(limbs);
    let encoded = EncodedScalars::new(ScalarEncoding::Limbs32, limbs.len(), &bytes);
    gpu.upload(&encoded, FieldId::Integers, rows, limbs.len() / rows)
}

fn upload_bits(gpu: &mut GpuVectors, matrix: &BitMatrix) -> Result<Arc<GpuVector>> {
    let (words, bytes): (_, &[u8]) = (matrix.words(), bytemuck::cast_slice(matrix.words()));
    let encoded = EncodedScalars::new(ScalarEncoding::PackedBits64, words.len(), &bytes);
    Ok(Arc::new(gpu.upload(&encoded, FieldId::Gf2, 1, words.len())?))
}

/// A matrix whose row i has a 1 in column `leading(i) - 1`, none before it, and random bits after
/// it; all bits are random if `leading(i)` is 0.
fn matrix(rows: usize, columns: usize, leading: impl Fn(usize) -> usize) -> Result<BitMatrix> {
    let invalid = |error: gf2::MatrixSizeError| Error::Internal(error.to_string());
    let mut matrix = BitMatrix::zeros(rows as u64, columns as u64).map_err(invalid)?;
    let random = random_words(rows * columns);
    for row in 0..rows {
        let first = leading(row);
        let is_one = |column: &usize| random[row * columns + column] >> 31 == 1;
        let ones = first.checked_sub(1).into_iter().chain((first..columns).filter(is_one));
        ones.for_each(|column| matrix.set(row, column));
    }
    Ok(matrix)
}

/// Words of a linear congruential generator modulo 2^64, whose upper halves are random enough.
fn random_words(count: usize) -> Vec<u32> {
    let mut state = 0x0ca9_57a1_u64;
    let words = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    });
    words.take(count).collect()
}

/// `a - b`, which is not negative, in as many limbs as `a`.
fn difference(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut borrow = false;
    let limbs = a.iter().enumerate().map(|(at, limb)| {
        let (once, first) = limb.overflowing_sub(b.get(at).copied().unwrap_or(0));
        let (twice, second) = once.overflowing_sub(borrow.into());
        borrow = first || second;
        twice
    });
    limbs.collect()
}
