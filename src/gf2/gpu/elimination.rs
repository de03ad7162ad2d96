//! The elimination of all columns of a matrix in device memory.

use std::ops::Range;

use super::{
    kernels::{EliminationKernels, RowUpdate},
    launch::{fault, grid},
    strips::{DeviceBits, DeviceBitsShape, DeviceRow, STRIP_COLUMNS},
};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Stream},
    gf2::elimination::ReducedRows,
};

/// Words of `PanelPlan` in `kernels/gf2/panel.cuh`.
const PLAN_WORDS: usize = 8 + 4 + 256 + 2 * 256 * 8;
/// The pivots of a panel are found while the one before it is used.
const PLANS: u32 = 2;
/// Lines of a strip's pivots, in either form.
const PIVOT_LINES: u64 = 256;
/// Rows that a warp updates at a time, and those of a block.
const TILE_ROWS: u32 = 16;
const BLOCK_ROWS: u32 = 8 * TILE_ROWS;
/// Blocks of an update for each multiprocessor, at most: four times the resident ones, so that the
/// last ones leave few multiprocessors idle.
const UPDATE_BLOCKS: u32 = 8;

/// An elimination in device memory.
pub struct GpuElimination<'a> {
    /// Pivots with distinct leading columns.
    pub given: DeviceBits<'a>,
    /// The rows, which are reduced in place.
    pub rows: DeviceBits<'a>,
    /// For each row, its leading column plus one once it is a pivot, else 0. Zero at the start.
    pub leading: DeviceSlice<'a, u32>,
    pub reduced: ReducedRows,
}

/// Working memory of an elimination.
pub struct GpuEliminationScratch {
    plans: DeviceLease,
    coefficients: DeviceLease,
    pivots: DeviceLease,
    factors: DeviceLease,
    given_at: DeviceLease,
}

impl GpuEliminationScratch {
    /// Memory that is zero, and that `lease` returns, given its bytes.
    ///
    /// Errors: those of `lease`.
    pub fn lease(
        rows: DeviceBitsShape,
        lease: impl Fn(u64) -> Result<DeviceLease, DeviceFault>,
    ) -> Result<Self, DeviceFault> {
        let [plans, coefficients, pivots, factors, given_at] = Self::parts(rows).map(lease);
        Ok(Self {
            plans: plans?,
            coefficients: coefficients?,
            pivots: pivots?,
            factors: factors?,
            given_at: given_at?,
        })
    }

    /// The bytes of all parts.
    pub fn bytes(rows: DeviceBitsShape) -> u64 {
        Self::parts(rows).iter().sum()
    }

    fn parts(rows: DeviceBitsShape) -> [u64; 5] {
        let (line, strips) = (size_of::<DeviceRow>() as u64, u64::from(rows.strips()));
        let plans = u64::from(PLANS) * size_of::<[u32; PLAN_WORDS]>() as u64;
        let (coefficients, pivots) = (u64::from(rows.rows) * line, strips * PIVOT_LINES * line);
        let given_at = 4 * strips * u64::from(STRIP_COLUMNS);
        [plans, coefficients, pivots, pivots, given_at].map(|bytes| bytes.max(line))
    }

    /// For each column, the given pivot that leads there, once the elimination has begun: see
    /// [`super::stored_row`].
    pub fn given_at(&self) -> DeviceSlice<'_, u32> {
        self.given_at.all()
    }

    /// The plan of a panel.
    fn plan(&self, strip: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let first = (strip % PLANS) as usize * PLAN_WORDS;
        self.plans.all().slice(first, PLAN_WORDS).ok_or_else(|| fault("no memory for a plan"))
    }

    /// For each column of a panel, the given pivot that leads there.
    fn given_in(&self, strip: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let (first, count) = ((strip * STRIP_COLUMNS) as usize, STRIP_COLUMNS as usize);
        let slice = self.given_at().slice(first, count);
        slice.ok_or_else(|| fault("working memory of another shape"))
    }
}

/// Bytes of device memory that an elimination takes in addition to the packed matrices.
pub fn elimination_bytes(
    given: DeviceBitsShape,
    rows: DeviceBitsShape,
    reduced: ReducedRows,
) -> u64 {
    // The leading columns, and the order of the pivots of an echelon form.
    let per_row = if reduced == ReducedRows::All { 8 } else { 4 };
    let scratch = GpuEliminationScratch::bytes(rows);
    given.bytes() + rows.bytes() + scratch + per_row * u64::from(rows.rows)
}

/// What launches need.
#[derive(Clone, Copy)]
pub struct EliminationLaunch<'a> {
    pub kernels: &'a EliminationKernels,
    pub stream: &'a Stream,
    /// New, and leased for the shape of the rows.
    pub scratch: &'a GpuEliminationScratch,
}

impl GpuElimination<'_> {
    /// Finds the leading columns of the given pivots.
    ///
    /// Errors: `KernelMismatch` if memory does not match the shapes; those of launches.
    pub fn find_given(&self, with: EliminationLaunch<'_>) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let (given, rows) = (self.given.shape, self.rows.shape);
        let is_whole = |bits: &DeviceBits<'_>| bits.lines.len() >= bits.shape.lines();
        if given.columns != rows.columns
            || !is_whole(&self.given)
            || !is_whole(&self.rows)
            || self.leading.len() < rows.rows as usize
        {
            return Err(fault("memory does not match the matrices"));
        }
        kernels.layout.leading_columns(stream, self.given, scratch.given_at())
    }

    /// Launches the elimination of panels, all of them in order, after [`Self::find_given`].
    ///
    /// Errors: those of launches.
    pub fn launch_panels(
        &self,
        with: EliminationLaunch<'_>,
        panels: Range<u32>,
    ) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let rows = self.rows.shape;
        if rows.rows == 0 || panels.is_empty() {
            return Ok(());
        }
        if panels.start == 0 {
            let arguments = (
                self.rows.lines,
                self.given.lines,
                scratch.given_in(0)?,
                rows.rows,
                self.columns_of(0),
                self.leading,
                scratch.plan(0)?,
            );
            kernels.first_panel.launch(stream, 1, arguments)?;
        }
        for strip in panels {
            self.launch_panel(with, strip)?;
        }
        Ok(())
    }

    /// Orders the promoted rows by their leading columns, after the last panel of an elimination
    /// without given pivots: `order`, which is zero before, gets one for each row, as
    /// `LayoutKernels::copy_from_strips` takes them.
    ///
    /// Errors: `KernelMismatch` if `order` is too short; those of launches.
    pub fn order_promoted(
        &self,
        with: EliminationLaunch<'_>,
        order: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let shape = self.rows.shape;
        let leading = self.leading.slice(0, shape.rows as usize);
        let leading = leading.ok_or_else(|| fault("memory does not match the matrices"))?;
        // No pivot is given, so the memory is zero.
        let row_at = scratch.given_at();
        kernels.layout.order_promoted(stream, leading, shape.columns, row_at, order)
    }

    /// The number of columns of a strip; 0 if it does not exist.
    fn columns_of(&self, strip: u32) -> u32 {
        self.rows.shape.columns.saturating_sub(strip * STRIP_COLUMNS).min(STRIP_COLUMNS)
    }

    fn launch_panel(&self, with: EliminationLaunch<'_>, strip: u32) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let shape = self.rows.shape;
        let (row_count, given_count) = (shape.rows, self.given.shape.rows);
        let (rows, given) =
            (self.rows.starting_at_strip(strip), self.given.starting_at_strip(strip));
        let first = strip * STRIP_COLUMNS;
        let left = shape.strips() - strip;
        let all = u32::from(self.reduced == ReducedRows::All);
        let coefficients = scratch.coefficients.all();
        let (copied, factors) = (scratch.pivots.all(), scratch.factors.all());
        let arguments = (
            given,
            rows,
            scratch.plan(strip)?,
            self.leading,
            given_count,
            row_count,
            first,
            left,
            all,
            coefficients,
            copied,
            factors,
        );
        kernels.pivots.launch(stream, left + grid(row_count.into())?, arguments)?;

        let pivots = match kernels.row_update {
            RowUpdate::MatrixInstructions => factors,
            RowUpdate::Tables => copied,
        };
        let blocks = (kernels.multiprocessors * UPDATE_BLOCKS / left).max(1);
        let blocks = blocks.min(row_count.div_ceil(BLOCK_ROWS));
        let next = strip + 1;
        let arguments = (
            rows,
            coefficients,
            pivots,
            row_count,
            blocks,
            given,
            given_count,
            scratch.given_in(next.min(shape.strips() - 1))?,
            self.leading,
            self.columns_of(next),
            next * STRIP_COLUMNS,
            scratch.plan(next)?,
        );
        kernels.update.launch(stream, left * blocks, arguments)
    }
}
