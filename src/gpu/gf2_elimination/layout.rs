//! Loads the kernels of `kernels/gf2/strips.cu`, which change the layout of matrices, and find
//! leading columns.

use super::{
    launch::{BLOCK, fault, grid},
    strips::{DeviceBits, RowPtr, WordPtr},
};
use crate::device::{DeviceFault, DeviceSlice, Gpu, GpuUnavailable, Kernel, KernelModule, Stream};

/// Parameters: packed, row_count, columns, words, strips, rows, unused.
type ToStripsKernel = Kernel<(WordPtr, u32, u32, u32, u32, RowPtr, WordPtr)>;
/// Parameters: rows, row_count, order, words, strips, packed.
type FromStripsKernel = Kernel<(RowPtr, u32, Option<WordPtr>, u32, u32, WordPtr)>;
/// Parameters: rows, row_count, strips, row_at.
type LeadingKernel = Kernel<(RowPtr, u32, u32, WordPtr)>;
/// Parameters: leading, row_count, row_at.
type PromotedKernel = Kernel<(WordPtr, u32, WordPtr)>;
/// Parameters: row_at, columns, order.
type OrderKernel = Kernel<(WordPtr, u32, WordPtr)>;

/// The kernels that need no elimination.
pub struct LayoutKernels {
    to_strips: ToStripsKernel,
    from_strips: FromStripsKernel,
    leading_columns: LeadingKernel,
    promoted_columns: PromotedKernel,
    pivot_order: OrderKernel,
}

/// The row whose inverted number a kernel has stored; `None` if it has stored none.
#[inline]
pub const fn stored_row(word: u32) -> Option<u32> {
    if word == 0 { None } else { Some(!word) }
}

impl LayoutKernels {
    pub(super) fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = KernelModule::load(gpu.context(), "gf2/strips")?;
        Ok(Self {
            to_strips: module.kernel("gf2_to_strips", BLOCK).map_err(failed)?,
            from_strips: module.kernel("gf2_from_strips", BLOCK).map_err(failed)?,
            leading_columns: module.kernel("gf2_leading_columns", BLOCK).map_err(failed)?,
            promoted_columns: module.kernel("gf2_promoted_columns", BLOCK).map_err(failed)?,
            pivot_order: module.kernel("gf2_pivot_order", BLOCK).map_err(failed)?,
        })
    }

    /// Copies packed rows, as matrices in the memory of the host have them, to strips. `unused`,
    /// initially zero, gets the first row with a bit after its last column: see [`stored_row`].
    pub fn copy_to_strips(
        &self,
        stream: &Stream,
        packed: DeviceSlice<'_, u32>,
        to: DeviceBits<'_>,
        unused: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let shape = to.shape;
        let words = packed_words(packed, to)?;
        let grid = grid(shape.lines() as u64)?;
        let (rows, columns, strips) = (shape.rows, shape.columns, shape.strips());
        let arguments = (packed, rows, columns, words, strips, to.lines, unused);
        self.to_strips.launch(stream, grid, arguments)
    }

    /// Copies strips to packed rows: row `r` of `packed` is the row that `order[r]` stores, or zero
    /// if it stores none. The rows keep their order without `order`.
    pub fn copy_from_strips(
        &self,
        stream: &Stream,
        from: DeviceBits<'_>,
        order: Option<DeviceSlice<'_, u32>>,
        packed: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let shape = from.shape;
        let words = packed_words(packed, from)?;
        if order.is_some_and(|order| order.len() < shape.rows as usize) {
            return Err(fault("the order has too few rows"));
        }
        let grid = grid(shape.lines() as u64)?;
        let arguments = (from.lines, shape.rows, order, words, shape.strips(), packed);
        self.from_strips.launch(stream, grid, arguments)
    }

    /// For each column, the first row that leads there. `row_at` is zero before.
    pub(super) fn leading_columns(
        &self,
        stream: &Stream,
        bits: DeviceBits<'_>,
        row_at: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let (rows, strips) = (bits.shape.rows, bits.shape.strips());
        self.leading_columns.launch(stream, grid(rows.into())?, (bits.lines, rows, strips, row_at))
    }

    /// Orders the promoted rows by their leading columns: `order` gets their numbers, as
    /// [`Self::copy_from_strips`] takes them. `row_at` and `order` are zero before.
    pub(super) fn order_promoted(
        &self,
        stream: &Stream,
        leading: DeviceSlice<'_, u32>,
        columns: u32,
        row_at: DeviceSlice<'_, u32>,
        order: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let rows = leading.len() as u32;
        if row_at.len() < columns as usize || order.len() < leading.len() {
            return Err(fault("no memory for the order of the pivots"));
        }
        self.promoted_columns.launch(stream, grid(rows.into())?, (leading, rows, row_at))?;
        self.pivot_order.launch(stream, 1, (row_at, columns, order))
    }
}

/// 32-bit words of a packed row; checks that all rows fit.
fn packed_words(packed: DeviceSlice<'_, u32>, bits: DeviceBits<'_>) -> Result<u32, DeviceFault> {
    let words = bits.shape.packed_words();
    let is_whole = packed.len() == words as usize * bits.shape.rows as usize;
    if !is_whole || bits.lines.len() < bits.shape.lines() {
        return Err(fault("memory does not match the matrix"));
    }
    Ok(words)
}
