//! Evaluates polynomials at a point, from their coefficients. Each level reduces them to the
//! coefficients of a polynomial that is about a thousand times shorter, at a power of the point.
//!
//! Per coefficient, that is a product without reduction, and 32 bytes read. A level has 256
//! weights, which every block finds in cache: a table of powers as long as the polynomial would
//! double the bytes read, and Horner's rule needs whole products.

use std::ops::RangeInclusive;

use ark_ff::Field;

use super::{
    DeviceVector, ElementPtr, THREADS, grid, kernel_fault, montgomery, overlap, row_length,
};
use crate::{
    curve::Fr,
    device::{
        BlockShape, DeviceArena, DeviceFault, Gpu, GpuUnavailable, Kernel, KernelModule, Stream,
    },
    ntt::elements::{DeviceFr, ELEMENT_BYTES},
};

/// Parameters: out, two bases.
type PowersPairKernel = Kernel<(ElementPtr, DeviceFr, DeviceFr)>;
/// Parameters: coefficients, weights, sums, length, chunks, coefficients_per_thread.
type EvaluateKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u64, u32, u32)>;

/// Bounds on the coefficients per thread: enough to amortise the tree of sums in a block, and at
/// most the number of a thread's weights. Not measured.
const PER_THREAD: RangeInclusive<u64> = 16..=128;
/// Weights per level.
const WEIGHTS: usize = 2 * THREADS as usize;

pub(super) struct PolynomialEvaluator {
    powers_pair: PowersPairKernel,
    sums: EvaluateKernel,
    arena: DeviceArena,
    resident_blocks: u64,
}

/// A step from rows of one length to shorter rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EvaluationLevel {
    length: u64,
    /// Coefficients per thread.
    per_thread: u64,
    /// Sums per row.
    chunks: u64,
}

impl PolynomialEvaluator {
    /// `module` has the kernel for weights.
    pub fn load(gpu: &Gpu, module: &KernelModule) -> Result<Self, GpuUnavailable> {
        let identity = gpu.identity();
        let failed = |fault| GpuUnavailable::Device { index: identity.index, fault };
        let evaluate = KernelModule::load(gpu.context(), "ntt/evaluate")?;
        let block = BlockShape::threads(THREADS);
        let sums: EvaluateKernel = evaluate.kernel("fr_evaluate", block).map_err(failed)?;
        let resident = sums.resident_blocks().map_err(failed)?;
        Ok(Self {
            powers_pair: module.kernel("fr_evaluation_weights", block).map_err(failed)?,
            sums,
            arena: gpu.arena().clone(),
            resident_blocks: u64::from(identity.limits.multiprocessors * resident),
        })
    }

    pub fn run(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        coefficients: DeviceVector<'_>,
        point: Fr,
    ) -> Result<(), DeviceFault> {
        let rows = out.len();
        let length = row_length(coefficients, rows)?;
        if overlap(&out, &coefficients) {
            return Err(kernel_fault("values overlap their coefficients"));
        }
        if rows == 0 {
            return Ok(());
        }
        let levels = levels(rows as u64, length as u64, self.resident_blocks);
        let sums = |level: &EvaluationLevel| rows * level.chunks as usize;
        let last = levels.len() - 1;
        let elements = levels.len() * WEIGHTS + levels[..last].iter().map(sums).sum::<usize>();
        let scratch = self.arena.lease(stream, elements as u64 * ELEMENT_BYTES)?;
        let mut taken = 0;
        let mut take = |count: usize| {
            taken += count;
            scratch.all().slice(taken - count, count).expect("the lease holds all elements")
        };
        let mut from = coefficients;
        let mut point = point;
        for (i, level) in levels.iter().enumerate() {
            let &EvaluationLevel { length, per_thread, chunks } = level;
            let weights = take(WEIGHTS);
            let high_base = point.pow([THREADS.into()]);
            let arguments = (weights, montgomery(point), montgomery(high_base));
            self.powers_pair.launch(stream, 2, arguments)?;
            let to = if i == last { out } else { take(sums(level)) };
            let arguments = (from, weights, to, length, chunks as u32, per_thread as u32);
            self.sums.launch(stream, grid(to.len() as u64)?, arguments)?;
            (from, point) = (to, high_base.pow([per_thread]));
        }
        Ok(())
    }
}

/// The levels that reduce each row to one sum, if `blocks` blocks are resident: the first is a
/// single wave, if threads can take enough coefficients.
fn levels(rows: u64, mut length: u64, blocks: u64) -> Vec<EvaluationLevel> {
    let threads = u64::from(THREADS);
    let mut levels = Vec::new();
    loop {
        let per_thread = (rows * length).div_ceil(threads * blocks);
        let per_thread = per_thread.clamp(*PER_THREAD.start(), *PER_THREAD.end());
        let chunks = length.div_ceil(threads * per_thread).max(1);
        levels.push(EvaluationLevel { length, per_thread, chunks });
        if chunks == 1 {
            return levels;
        }
        length = chunks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_end_with_one_sum_per_row() {
        let lengths = (0..=30).flat_map(|lg: u32| [(1_u64 << lg) - 1, 1 << lg, (1 << lg) + 1]);
        for (rows, length) in lengths.flat_map(|length| [(1, length), (7, length)]) {
            for blocks in [8, 132 * 8] {
                let levels = levels(rows, length, blocks);
                assert_eq!((levels[0].length, levels[levels.len() - 1].chunks), (length, 1));
                assert!(levels.len() <= 3);
                for (i, level) in levels.iter().enumerate() {
                    let chunk = level.per_thread * u64::from(THREADS);
                    assert!(PER_THREAD.contains(&level.per_thread));
                    assert!(level.chunks * chunk >= level.length);
                    assert!(level.chunks == 1 || (level.chunks - 1) * chunk < level.length);
                    assert!(levels.get(i + 1).is_none_or(|next| next.length == level.chunks));
                }
            }
        }
    }

    /// On an H200, up to 2^24 coefficients are one wave of blocks.
    #[test]
    fn the_first_level_is_one_wave() {
        for lg_n in 0..=24 {
            let levels = levels(1, 1 << lg_n, 132 * 8);
            assert!(levels[0].chunks <= 132 * 8 && levels.len() <= 2, "2^{lg_n}: {levels:?}");
        }
        assert_eq!(levels(1, 1 << 28, 132 * 8).len(), 3);
    }
}
