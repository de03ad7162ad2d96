//! Loads the kernels of `kernels/gf2`.

use super::strips::{DeviceBits, DeviceRow};
use crate::device::{
    BlockShape, DeviceFault, DevicePtr, DeviceSlice, Gpu, GpuUnavailable, Kernel, KernelModule,
    MajorMinor, Stream,
};

type RowPtr = DevicePtr<DeviceRow>;
type WordPtr = DevicePtr<u32>;

/// Parameters: rows, given, given_at, row_count, columns, leading, plan.
type FirstPanelKernel = Kernel<(RowPtr, RowPtr, WordPtr, u32, u32, WordPtr, WordPtr)>;
/// Parameters: given, rows, plan, leading, given_count, row_count, first_column, strips, all,
/// coefficients, separated, factors.
#[rustfmt::skip]
type PivotsKernel = Kernel<(
    RowPtr, RowPtr, WordPtr, WordPtr, u32, u32, u32, u32, u32, RowPtr, RowPtr, RowPtr,
)>;
/// Parameters: rows, coefficients, pivots in the kernel's form, row_count, blocks_of_rows, given,
/// given_count, next_given_at, leading, next_columns, next_first, next.
#[rustfmt::skip]
type UpdateKernel = Kernel<(
    RowPtr, RowPtr, RowPtr, u32, u32, RowPtr, u32, WordPtr, WordPtr, u32, u32, WordPtr,
)>;
/// Parameters: packed, row_count, words, strips, rows.
type ToStripsKernel = Kernel<(WordPtr, u32, u32, u32, RowPtr)>;
/// Parameters: rows, row_count, words, strips, packed.
type FromStripsKernel = Kernel<(RowPtr, u32, u32, u32, WordPtr)>;
/// Parameters: given, given_count, strips, given_at.
type LeadingKernel = Kernel<(RowPtr, u32, u32, WordPtr)>;

/// Threads of every block.
pub(super) const THREADS: u32 = 256;
/// Shared memory of `gf2_update_tables`: 64 tables of 16 sums of 32 bytes, and 256 pivots.
const TABLES_BYTES: u32 = 32 * (64 * 16 + 256);

/// The first compute capability without binary matrix instructions.
const CAPABILITY_TABLES: MajorMinor = MajorMinor { major: 10, minor: 0 };

/// How the pivots of a panel are added to the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowUpdate {
    /// By binary matrix instructions.
    MatrixInstructions,
    /// By tables of the sums of four pivots.
    Tables,
}

/// The kernels of eliminations on a device.
pub struct EliminationKernels {
    pub(super) first_panel: FirstPanelKernel,
    pub(super) pivots: PivotsKernel,
    pub(super) update: UpdateKernel,
    pub(super) row_update: RowUpdate,
    pub(super) leading_columns: LeadingKernel,
    pub(super) multiprocessors: u32,
    to_strips: ToStripsKernel,
    from_strips: FromStripsKernel,
}

impl EliminationKernels {
    /// The kernels with the device's best way to add pivots.
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let has_instructions = gpu.identity().capability < CAPABILITY_TABLES;
        Self::load_with(
            gpu,
            if has_instructions { RowUpdate::MatrixInstructions } else { RowUpdate::Tables },
        )
    }

    /// Every device has tables.
    pub fn load_with(gpu: &Gpu, row_update: RowUpdate) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let block = BlockShape::threads(THREADS);
        let module = |name| KernelModule::load(gpu.context(), name);
        let (panel, update, strips) =
            (module("gf2/panel")?, module("gf2/update")?, module("gf2/strips")?);
        let (update_name, shared_bytes) = match row_update {
            RowUpdate::MatrixInstructions => ("gf2_update", 0),
            RowUpdate::Tables => ("gf2_update_tables", TABLES_BYTES),
        };
        let update_block = BlockShape { threads: THREADS, shared_bytes };
        Ok(Self {
            first_panel: panel.kernel("gf2_first_panel", block).map_err(failed)?,
            pivots: update.kernel("gf2_pivots", block).map_err(failed)?.with_pdl(),
            update: update.kernel(update_name, update_block).map_err(failed)?.with_pdl(),
            row_update,
            leading_columns: strips.kernel("gf2_leading_columns", block).map_err(failed)?,
            multiprocessors: gpu.identity().limits.multiprocessors,
            to_strips: strips.kernel("gf2_to_strips", block).map_err(failed)?,
            from_strips: strips.kernel("gf2_from_strips", block).map_err(failed)?,
        })
    }

    /// Copies packed rows, as [`crate::gf2::BitMatrix`] has them, to strips.
    pub fn to_strips(
        &self,
        stream: &Stream,
        packed: DeviceSlice<'_, u32>,
        to: DeviceBits<'_>,
    ) -> Result<(), DeviceFault> {
        let shape = to.shape;
        let words = packed_words(packed, to)?;
        let grid = grid(shape.lines() as u64)?;
        self.to_strips.launch(stream, grid, (packed, shape.rows, words, shape.strips(), to.lines))
    }

    /// Copies strips to packed rows.
    pub fn from_strips(
        &self,
        stream: &Stream,
        from: DeviceBits<'_>,
        packed: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let shape = from.shape;
        let words = packed_words(packed, from)?;
        let grid = grid(shape.lines() as u64)?;
        let arguments = (from.lines, shape.rows, words, shape.strips(), packed);
        self.from_strips.launch(stream, grid, arguments)
    }
}

/// Words of a packed row; checks that all rows fit.
fn packed_words(packed: DeviceSlice<'_, u32>, bits: DeviceBits<'_>) -> Result<u32, DeviceFault> {
    let words = bits.shape.packed_words();
    let is_whole = packed.len() == words as usize * bits.shape.rows as usize;
    if !is_whole || bits.lines.len() < bits.shape.lines() {
        return Err(fault("memory does not match the matrix"));
    }
    Ok(words)
}

/// Blocks with one item per thread.
pub(super) fn grid(items: u64) -> Result<u32, DeviceFault> {
    u32::try_from(items.div_ceil(THREADS.into())).map_err(|_| fault("too many rows"))
}

pub(super) fn fault(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "gf2".into(), problem: problem.into() }
}
