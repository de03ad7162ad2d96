//! Launches of a plan's passes.

use super::{
    kernels::mismatch,
    plan::{Ntt31Device, Ntt31PassPlan, PassKind31, PlannedPass31},
    shapes::LG_SMALL_TILE,
};
use crate::device::{DeviceFault, DeviceSlice, Stream};

/// log2 of the shortest rows that are reversed in tiles, and of a tile's words.
const LG_LONG_ROW: u32 = 10;
const REVERSE_THREADS: u64 = 256;

/// Rows of words, transformed in place.
#[derive(Clone, Copy)]
struct RowsInPlace<'a> {
    stream: &'a Stream,
    plan: &'a Ntt31PassPlan,
    words: DeviceSlice<'a, u32>,
}

impl Ntt31Device {
    /// Transforms `rows` contiguous vectors in `data` on `stream`. Returns where the results are:
    /// `data`, or `second`. The contents of the other one are then unspecified.
    ///
    /// Shape: `data` and `second` have `rows` times 2^lg_n canonical elements in Montgomery form;
    /// `second` is required if [`Ntt31PassPlan::needs_second_buffer`], and does not overlap `data`.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn run<'d>(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        data: DeviceSlice<'d, u32>,
        rows: u32,
        second: Option<DeviceSlice<'d, u32>>,
    ) -> Result<DeviceSlice<'d, u32>, DeviceFault> {
        let lg_n = plan.transform.lg_n;
        let count = u64::from(rows) << lg_n;
        let second = second.filter(|_| plan.needs_second_buffer());
        let is_whole = |words: DeviceSlice<'_, u32>| words.len() as u64 == count;
        let fits = is_whole(data) && second.is_none_or(is_whole);
        if !fits || plan.needs_second_buffer() != second.is_some() {
            return Err(mismatch(format!("{rows} rows of 2^{lg_n} words do not match the memory")));
        }
        let Some(second) = second else {
            self.run_passes(RowsInPlace { stream, plan, words: data })?;
            return Ok(data);
        };
        if plan.transform.input_reversed {
            self.reverse(stream, lg_n, data, second)?;
            self.run_passes(RowsInPlace { stream, plan, words: second })?;
        } else {
            self.run_passes(RowsInPlace { stream, plan, words: data })?;
            self.reverse(stream, lg_n, data, second)?;
        }
        Ok(second)
    }

    fn run_passes(&self, rows: RowsInPlace<'_>) -> Result<(), DeviceFault> {
        let run = |pass: &PlannedPass31| match &pass.kind {
            PassKind31::Small => self.run_small(rows, pass),
            PassKind31::Columns { .. } => self.run_columns(rows, pass),
            PassKind31::Rows => self.run_rows(rows, pass),
        };
        let passes = &rows.plan.passes;
        if rows.plan.is_dit() {
            passes.iter().rev().try_for_each(run)
        } else {
            passes.iter().try_for_each(run)
        }
    }

    fn run_small(&self, rows: RowsInPlace<'_>, pass: &PlannedPass31) -> Result<(), DeviceFault> {
        let RowsInPlace { stream, plan, words } = rows;
        let (lg_n, (natural, reversed)) = (plan.transform.lg_n, pass.factors());
        let count = words.len() as u64 >> lg_n;
        let grid = grid((words.len() as u64).div_ceil(1 << LG_SMALL_TILE))?;
        let (stride, length, twiddles) = (1 << lg_n, 1 << lg_n, pass.twiddles.all());
        if plan.is_dit() {
            let arguments = (
                words, words, stride, length, twiddles, natural, reversed, lg_n, count, plan.prime,
            );
            return self.kernels.small_dit.launch(stream, grid, arguments);
        }
        let arguments =
            (words, stride, length, words, twiddles, natural, reversed, lg_n, count, plan.prime);
        self.kernels.small_dif.launch(stream, grid, arguments)
    }

    fn run_rows(&self, rows: RowsInPlace<'_>, pass: &PlannedPass31) -> Result<(), DeviceFault> {
        let RowsInPlace { stream, plan, words } = rows;
        let (shape, (natural, reversed)) = (pass.shape, pass.factors());
        let count = words.len() as u64 >> shape.lg_r;
        let grid = grid(count.div_ceil(1 << shape.lg_lanes()))?;
        let (stride, length, twiddles) = (1 << shape.lg_r, 1 << shape.lg_r, pass.twiddles.all());
        let kernels = self.kernels.rows(shape)?;
        if plan.is_dit() {
            let arguments =
                (words, words, stride, length, twiddles, natural, reversed, count, plan.prime);
            return kernels.dit.launch(stream, grid, arguments);
        }
        let arguments =
            (words, stride, length, words, twiddles, natural, reversed, count, plan.prime);
        kernels.dif.launch(stream, grid, arguments)
    }

    fn run_columns(&self, rows: RowsInPlace<'_>, pass: &PlannedPass31) -> Result<(), DeviceFault> {
        let RowsInPlace { stream, plan, words } = rows;
        let PassKind31::Columns { lg_block, starts, steps } = &pass.kind else {
            return Err(mismatch("the pass has no columns".into()));
        };
        let grid = grid(words.len() as u64 >> pass.shape.lg_tile)?;
        let (stride, length) = (1 << lg_block, 1 << lg_block);
        let (twiddles, starts, steps) = (pass.twiddles.all(), starts.all(), steps.all());
        let (natural, _) = pass.factors();
        let kernels = self.kernels.columns(pass.shape)?;
        if plan.is_dit() {
            let arguments = (
                words, words, stride, length, twiddles, starts, steps, natural, *lg_block,
                plan.prime,
            );
            return kernels.dit.launch(stream, grid, arguments);
        }
        let arguments =
            (words, stride, length, words, twiddles, starts, steps, natural, *lg_block, plan.prime);
        kernels.dif.launch(stream, grid, arguments)
    }

    /// Copies rows of 2^`lg_n` words in bit-reversed order.
    fn reverse(
        &self,
        stream: &Stream,
        lg_n: u32,
        from: DeviceSlice<'_, u32>,
        to: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let words = from.len() as u64;
        if lg_n < LG_LONG_ROW {
            let grid = grid(words.div_ceil(REVERSE_THREADS))?;
            return self.kernels.reverse_short_rows.launch(stream, grid, (from, to, lg_n, words));
        }
        let grid = grid(words >> LG_LONG_ROW)?;
        self.kernels.reverse_long_rows.launch(stream, grid, (from, to, lg_n))
    }
}

impl PlannedPass31 {
    /// The factors of words in natural and in bit-reversed order.
    fn factors(&self) -> (Option<DeviceSlice<'_, u64>>, Option<DeviceSlice<'_, u64>>) {
        (
            self.natural_factors.as_ref().map(|factors| factors.all()),
            self.reversed_factors.as_ref().map(|factors| factors.all()),
        )
    }
}

fn grid(blocks: u64) -> Result<u32, DeviceFault> {
    u32::try_from(blocks).map_err(|_| mismatch("the rows exceed the limit of one launch".into()))
}
