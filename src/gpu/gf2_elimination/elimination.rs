//! The elimination of all columns of a matrix in device memory.

use std::ops::Range;

use super::{
    kernels::{EliminationKernels, RowUpdate},
    launch::{fault, grid},
    strips::{DeviceBits, DeviceBitsShape, DeviceRow, STRIP_COLUMNS},
};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Stream},
    gf2::ReducedRows,
};

/// Words of `PanelPlan` in `kernels/gf2/panel.cuh`.
const PLAN_WORDS: usize = 8 + 4 + 256 + 2 * 256 * 8;
/// Where `PanelPlan` has the row of each pivot.
const SOURCE_WORDS: Range<usize> = 12..12 + 256;
/// Bytes of the rows that are a panel's pivots.
pub const SOURCE_BYTES: u64 = size_of::<[u32; 256]>() as u64;
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

/// An elimination in device memory, of all columns of a matrix or of some of them.
pub struct GpuElimination<'a> {
    /// The number of panels before these columns.
    pub first_panel: u32,
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
        let line = size_of::<DeviceRow>() as u64;
        let strips = u64::from(rows.strips());
        let plans = u64::from(PLANS) * size_of::<[u32; PLAN_WORDS]>() as u64;
        let coefficients = u64::from(rows.rows) * line;
        let pivots = strips * PIVOT_LINES * line;
        let given_at = 4 * strips * u64::from(STRIP_COLUMNS);
        [plans, coefficients, pivots, pivots, given_at].map(|bytes| bytes.max(line))
    }

    /// For each column, the given pivot that leads there, if it is set: see
    /// [`super::stored_row`].
    pub fn given_at(&self) -> DeviceSlice<'_, u32> {
        self.given_at.all()
    }

    /// For each row, the pivots that the last panel adds to it.
    pub fn coefficients(&self) -> DeviceSlice<'_, DeviceRow> {
        self.coefficients.all()
    }

    /// The rows that are the pivots of a panel of the matrix, until those of the next but one take
    /// their place.
    ///
    /// Errors: none for memory that was leased.
    pub fn sources(&self, panel: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let sources = self.plan(panel)?.slice(SOURCE_WORDS.start, SOURCE_WORDS.len());
        sources.ok_or_else(|| fault("no memory for a plan"))
    }

    fn plan(&self, panel: u32) -> Result<DeviceSlice<'_, u32>, DeviceFault> {
        let first = (panel % PLANS) as usize * PLAN_WORDS;
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

/// The panel whose pivots are added, and the first strip they are added in.
#[derive(Clone, Copy)]
struct PanelUpdate {
    panel: u32,
    first_strip: u32,
}

/// What launches need.
#[derive(Clone, Copy)]
pub struct EliminationLaunch<'a> {
    pub kernels: &'a EliminationKernels,
    pub stream: &'a Stream,
    /// Zero before the first panel, and leased for at least these columns.
    pub scratch: &'a GpuEliminationScratch,
}

impl GpuElimination<'_> {
    /// Finds the leading columns of the given pivots.
    ///
    /// Errors: `KernelMismatch` if memory does not match the shapes; those of launches.
    pub fn find_given(&self, with: EliminationLaunch<'_>) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let given = self.given.shape;
        let rows = self.rows.shape;
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

    /// Launches the elimination of panels, numbered within these columns: all of them in order,
    /// once [`GpuEliminationScratch::given_at`] is set, as by [`Self::find_given`].
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
                self.first_panel * STRIP_COLUMNS,
                self.leading,
                scratch.plan(self.first_panel)?,
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
        let row_blocks = grid(self.rows.shape.rows.into())?;
        let update = PanelUpdate { panel: self.first_panel + strip, first_strip: strip };
        self.launch_pivots(with, update, row_blocks)?;
        self.launch_update(with, update, self.columns_of(strip + 1))
    }

    /// Adds the pivots of a panel before these columns to the rows, as in its own columns. The
    /// working memory has its pivots' rows and its coefficients again.
    ///
    /// Errors: those of launches.
    pub fn launch_earlier_panel(
        &self,
        with: EliminationLaunch<'_>,
        panel: u32,
    ) -> Result<(), DeviceFault> {
        if self.rows.shape.rows == 0 {
            return Ok(());
        }
        let update = PanelUpdate { panel, first_strip: 0 };
        self.launch_pivots(with, update, 0)?;
        self.launch_update(with, update, 0)
    }

    /// Copies the pivots; `row_blocks` blocks find which of them are added to each row.
    fn launch_pivots(
        &self,
        with: EliminationLaunch<'_>,
        PanelUpdate { panel, first_strip }: PanelUpdate,
        row_blocks: u32,
    ) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let left = self.rows.shape.strips() - first_strip;
        let arguments = (
            self.given.starting_at_strip(first_strip),
            self.rows.starting_at_strip(first_strip),
            scratch.plan(panel)?,
            self.leading,
            self.given.shape.rows,
            self.rows.shape.rows,
            panel * STRIP_COLUMNS,
            left,
            u32::from(self.reduced == ReducedRows::All),
            scratch.coefficients.all(),
            scratch.pivots.all(),
            scratch.factors.all(),
        );
        kernels.pivots.launch(stream, left + row_blocks, arguments)
    }

    /// Adds the pivots to the rows, and finds those of the next panel if it has columns.
    fn launch_update(
        &self,
        with: EliminationLaunch<'_>,
        PanelUpdate { panel, first_strip }: PanelUpdate,
        next_columns: u32,
    ) -> Result<(), DeviceFault> {
        let EliminationLaunch { kernels, stream, scratch } = with;
        let shape = self.rows.shape;
        let pivots = match kernels.row_update {
            RowUpdate::MatrixInstructions => scratch.factors.all(),
            RowUpdate::Tables => scratch.pivots.all(),
        };
        let left = shape.strips() - first_strip;
        let blocks = (kernels.multiprocessors * UPDATE_BLOCKS / left).max(1);
        let blocks = blocks.min(shape.rows.div_ceil(BLOCK_ROWS));
        let next_strip = (first_strip + 1).min(shape.strips() - 1);
        let arguments = (
            self.rows.starting_at_strip(first_strip),
            scratch.coefficients.all(),
            pivots,
            shape.rows,
            blocks,
            self.given.starting_at_strip(first_strip),
            self.given.shape.rows,
            scratch.given_in(next_strip)?,
            self.leading,
            next_columns,
            (panel + 1) * STRIP_COLUMNS,
            scratch.plan(panel + 1)?,
        );
        kernels.update.launch(stream, left * blocks, arguments)
    }
}
