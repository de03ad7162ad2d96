//! The elimination of all columns of a matrix in device memory.

use super::{
    kernels::{EliminationKernels, RowUpdate, fault, grid},
    strips::{DeviceBits, DeviceBitsShape, DeviceRow, STRIP_COLUMNS},
};
use crate::{
    device::{DeviceArena, DeviceFault, DeviceLease, DeviceSlice, Stream},
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
    separated: DeviceLease,
    factors: DeviceLease,
    given_at: DeviceLease,
}

impl GpuEliminationScratch {
    /// Errors: the arena has too little memory.
    pub fn lease(
        arena: &DeviceArena,
        stream: &Stream,
        rows: DeviceBitsShape,
    ) -> Result<Self, DeviceFault> {
        let line = size_of::<DeviceRow>() as u64;
        let lease = |bytes: u64| arena.lease(stream, bytes.max(line));
        let pivots = u64::from(rows.strips()) * PIVOT_LINES * line;
        Ok(Self {
            plans: lease(u64::from(PLANS) * size_of::<[u32; PLAN_WORDS]>() as u64)?,
            coefficients: lease(u64::from(rows.rows) * line)?,
            separated: lease(pivots)?,
            factors: lease(pivots)?,
            given_at: lease(4 * u64::from(rows.strips()) * u64::from(STRIP_COLUMNS))?,
        })
    }
}

impl GpuEliminationScratch {
    /// The plan of a panel.
    fn plan(&self, strip: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let first = (strip % PLANS) as usize * PLAN_WORDS;
        self.plans.all().slice(first, PLAN_WORDS).ok_or_else(|| fault("no memory for a plan"))
    }

    /// For each column of a panel, the given pivot that leads there.
    fn given_at(&self, strip: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let (first, count) = ((strip * STRIP_COLUMNS) as usize, STRIP_COLUMNS as usize);
        let slice = self.given_at.all().slice(first, count);
        slice.ok_or_else(|| fault("working memory of another shape"))
    }
}

impl GpuElimination<'_> {
    /// Launches the elimination. `scratch` is new, and leased for the shape of `rows`.
    ///
    /// Errors: `KernelMismatch` if memory does not match the shapes; those of launches.
    pub fn launch(
        &self,
        kernels: &EliminationKernels,
        stream: &Stream,
        scratch: &GpuEliminationScratch,
    ) -> Result<(), DeviceFault> {
        let (given, rows) = (self.given.shape, self.rows.shape);
        let is_whole = |bits: &DeviceBits<'_>| bits.lines.len() >= bits.shape.lines();
        if given.columns != rows.columns
            || !is_whole(&self.given)
            || !is_whole(&self.rows)
            || self.leading.len() < rows.rows as usize
        {
            return Err(fault("memory does not match the matrices"));
        }
        if rows.rows == 0 || rows.columns == 0 {
            return Ok(());
        }
        let given_grid = grid(given.rows.into())?;
        let arguments = (self.given.lines, given.rows, given.strips(), scratch.given_at.all());
        kernels.leading_columns.launch(stream, given_grid, arguments)?;
        let columns = self.columns_of(0);
        let arguments = (
            self.rows.lines,
            self.given.lines,
            scratch.given_at(0)?,
            rows.rows,
            columns,
            self.leading,
            scratch.plan(0)?,
        );
        kernels.first_panel.launch(stream, 1, arguments)?;
        for strip in 0..rows.strips() {
            self.launch_panel(kernels, stream, scratch, strip)?;
        }
        Ok(())
    }

    /// The number of columns of a strip; 0 if it does not exist.
    fn columns_of(&self, strip: u32) -> u32 {
        self.rows.shape.columns.saturating_sub(strip * STRIP_COLUMNS).min(STRIP_COLUMNS)
    }

    fn launch_panel(
        &self,
        kernels: &EliminationKernels,
        stream: &Stream,
        scratch: &GpuEliminationScratch,
        strip: u32,
    ) -> Result<(), DeviceFault> {
        let shape = self.rows.shape;
        let (row_count, given_count) = (shape.rows, self.given.shape.rows);
        let (rows, given) = (self.rows.from_strip(strip), self.given.from_strip(strip));
        let first = strip * STRIP_COLUMNS;
        let left = shape.strips() - strip;
        let all = u32::from(self.reduced == ReducedRows::All);
        let coefficients = scratch.coefficients.all();
        let (separated, factors) = (scratch.separated.all(), scratch.factors.all());
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
            separated,
            factors,
        );
        kernels.pivots.launch(stream, left + grid(row_count.into())?, arguments)?;

        let pivots = match kernels.row_update {
            RowUpdate::MatrixInstructions => factors,
            RowUpdate::Tables => separated,
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
            scratch.given_at(next.min(shape.strips() - 1))?,
            self.leading,
            self.columns_of(next),
            next * STRIP_COLUMNS,
            scratch.plan(next)?,
        );
        kernels.update.launch(stream, left * blocks, arguments)
    }
}
