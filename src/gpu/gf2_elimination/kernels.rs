//! Loads the kernels of `kernels/gf2`.

use super::{
    launch::{BLOCK, THREADS},
    layout::LayoutKernels,
    strips::{RowPtr, WordPtr},
};
use crate::device::{BlockShape, Gpu, GpuUnavailable, Kernel, KernelModule};

/// Parameters: rows, given, given_at, row_count, columns, first_column, leading, plan.
type FirstPanelKernel = Kernel<(RowPtr, RowPtr, WordPtr, u32, u32, u32, WordPtr, WordPtr)>;
/// Parameters: given, rows, plan, leading, given_count, row_count, first_column, strips, all,
/// coefficients, pivots, factors.
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

/// Shared memory of `gf2_update_tables`: 64 tables of 16 sums of 32 bytes, and 256 pivots.
const TABLES_BYTES: u32 = 32 * (64 * 16 + 256);

/// How the pivots of a panel are added to the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowUpdate {
    /// By binary matrix instructions.
    MatrixInstructions,
    /// By tables of the sums of four pivots.
    Tables,
}

impl RowUpdate {
    /// In words, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MatrixInstructions => "binary matrix instructions",
            Self::Tables => "tables of sums",
        }
    }
}

/// The kernels of eliminations on a device.
pub struct EliminationKernels {
    pub layout: LayoutKernels,
    pub(super) first_panel: FirstPanelKernel,
    pub(super) pivots: PivotsKernel,
    pub(super) update: UpdateKernel,
    pub(super) row_update: RowUpdate,
    pub(super) multiprocessors: u32,
}

impl EliminationKernels {
    /// The kernels with the device's best way to add pivots.
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let has_instructions = gpu.identity().limits.has_bit_products;
        Self::load_with(
            gpu,
            if has_instructions { RowUpdate::MatrixInstructions } else { RowUpdate::Tables },
        )
    }

    /// Every device has tables.
    pub fn load_with(gpu: &Gpu, row_update: RowUpdate) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = |name| KernelModule::load(gpu.context(), name);
        let (panel, update) = (module("gf2/panel")?, module("gf2/update")?);
        let (update_name, shared_bytes) = match row_update {
            RowUpdate::MatrixInstructions => ("gf2_update", 0),
            RowUpdate::Tables => ("gf2_update_tables", TABLES_BYTES),
        };
        let update_block = BlockShape { threads: THREADS, shared_bytes };
        Ok(Self {
            layout: LayoutKernels::load(gpu)?,
            first_panel: panel.kernel("gf2_first_panel", BLOCK).map_err(failed)?,
            pivots: update.kernel("gf2_pivots", BLOCK).map_err(failed)?.with_pdl(),
            update: update.kernel(update_name, update_block).map_err(failed)?.with_pdl(),
            row_update,
            multiprocessors: gpu.identity().limits.multiprocessors,
        })
    }

    /// How the pivots of a panel are added to the rows.
    pub fn row_update(&self) -> RowUpdate {
        self.row_update
    }
}
