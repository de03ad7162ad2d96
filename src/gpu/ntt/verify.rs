//! Verifies a transform on the device. Its input and output are the same polynomial, by
//! coefficients and by values, so both are evaluated at a secret point.
//!
//! The point is drawn when the transforms are loaded and never leaves them. Any wrong output passes
//! with probability below 2^lg_n / r, less than 2^-222. An evaluation is linear in the row's
//! length: per element, a product without reduction and a weight read from a table.

use std::sync::Arc;

use ark_ff::Field;
use zeroize::Zeroizing;

use super::{
    elements::{DeviceFr, ELEMENT_BYTES, ElementPtr},
    tables::{BarycentricWeights, PowerTable, TwiddleTable, TwiddleTables},
    twiddles::square_times,
};
use crate::{
    curve::{Fr, NttPlan, scalars},
    device::{
        BlockShape, DeviceArena, DeviceContext, DeviceFault, DeviceLease, DeviceSlice,
        GpuUnavailable, Kernel, KernelModule, Stream,
    },
};

/// Threads per block, as the kernels are compiled: registers allow 9 blocks per multiprocessor.
/// Other sizes were not measured.
const THREADS: u32 = 128;
/// log2 of the most elements that a block sums: 64 per thread, so that reducing the thread's sum is
/// negligible. The table of powers of the point has the same length.
const LG_CHUNK_MAX: u32 = 13;
/// log2 of the fewest chunks of a row, if it is long enough: 4 blocks per multiprocessor of an
/// H200. Others were not measured.
const LG_CHUNKS: u32 = 9;

pub(super) struct SecretPointEvaluator {
    /// Parameters: values, low, high, partial, lg_n, lg_low, lg_chunk.
    dot_kernel: Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32)>,
    /// Parameters: partial, sums, row_chunks.
    sum_kernel: Kernel<(ElementPtr, ElementPtr, u32)>,
    arena: DeviceArena,
    point: Zeroizing<Fr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformEnd {
    Input,
    Output,
}

/// The tables to evaluate one end of a transform. The transform is right if both ends' evaluations
/// are equal, row by row.
pub struct EvaluationTables {
    lg_n: u32,
    lg_low: u32,
    low: Arc<TwiddleTable>,
    high: Option<Arc<TwiddleTable>>,
}

impl SecretPointEvaluator {
    pub fn load(context: &DeviceContext, arena: &DeviceArena) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: context.identity().index, fault };
        let module = KernelModule::load(context, "ntt/evaluate")?;
        let block = BlockShape::threads(THREADS);
        Ok(Self {
            dot_kernel: module.kernel("fr_dot_chunks", block).map_err(failed)?,
            sum_kernel: module.kernel("fr_sum_chunks", block).map_err(failed)?,
            arena: arena.clone(),
            point: scalars::random_point(),
        })
    }

    pub fn plan(
        &self,
        tables: &TwiddleTables,
        transform: &NttPlan,
        end: TransformEnd,
    ) -> Result<EvaluationTables, DeviceFault> {
        let lg_n = transform.lg_n;
        let reversed = match end {
            TransformEnd::Input => transform.input_reversed,
            TransformEnd::Output => transform.output_reversed,
        };
        if (end == TransformEnd::Input) != transform.inverse {
            // The values are on the coset g w^j, so evaluate the coefficients at g z.
            let base = transform.coset.unwrap_or(Fr::ONE) * *self.point;
            let lg_low = lg_n.min(LG_CHUNK_MAX);
            // In bit-reversed order, neighbours differ in the top bits.
            let (lg_low_step, lg_high_step) =
                if reversed { (lg_n - lg_low, 0) } else { (0, lg_low) };
            let powers = |lg_step, lg_n| {
                tables.powers(PowerTable { base: square_times(base, lg_step), lg_n, reversed })
            };
            let low = powers(lg_low_step, lg_low)?;
            let high = match lg_n - lg_low {
                0 => None,
                lg_high => Some(powers(lg_high_step, lg_high)?),
            };
            return Ok(EvaluationTables { lg_n, lg_low, low, high });
        }
        let low = tables.weights(BarycentricWeights { lg_n, point: *self.point, reversed })?;
        Ok(EvaluationTables { lg_n, lg_low: lg_n, low, high: None })
    }

    pub fn run(
        &self,
        stream: &Stream,
        evaluation: &EvaluationTables,
        data: DeviceSlice<'_, DeviceFr>,
    ) -> Result<DeviceLease, DeviceFault> {
        let &EvaluationTables { lg_n, lg_low, .. } = evaluation;
        let lg_chunk = lg_n.saturating_sub(LG_CHUNKS);
        let lg_chunk = lg_chunk.clamp(THREADS.ilog2(), LG_CHUNK_MAX).min(lg_n);
        let problem = || DeviceFault::KernelMismatch {
            kernel: "fr_dot_chunks".into(),
            problem: "partial rows".into(),
        };
        let rows = u32::try_from(data.len() >> lg_n).map_err(|_| problem())?;
        if rows as usize != data.len().div_ceil(1 << lg_n) {
            return Err(problem());
        }
        let chunks = u32::try_from(data.len() >> lg_chunk).map_err(|_| problem())?;
        let partial = self.arena.lease(stream, u64::from(chunks) * ELEMENT_BYTES)?;
        let sums = self.arena.lease(stream, u64::from(rows) * ELEMENT_BYTES)?;
        let low = evaluation.low.all();
        let high = evaluation.high.as_ref().map_or(low, |high| high.all());
        let arguments = (data, low, high, partial.all(), lg_n, lg_low, lg_chunk);
        self.dot_kernel.launch(stream, chunks, arguments)?;
        let chunks_per_row = 1 << (lg_n - lg_chunk);
        self.sum_kernel.launch(stream, rows, (partial.all(), sums.all(), chunks_per_row))?;
        Ok(sums)
    }
}
