//! Launches of a plan's passes.

use super::{
    kernels::{WordVector, mismatch},
    plan::{Ntt31Device, Ntt31PassPlan, PassKind31, PlannedPass31},
    shapes::{LG_SMALL_TILE, PassShape},
};
use crate::device::{DeviceFault, DeviceSlice, Stream};

/// log2 of the shortest rows that are reversed in tiles, and of a tile's words.
const LG_LONG_ROW: u32 = 10;
const REVERSE_THREADS: u64 = 256;

/// Rows of a transform in natural order, one after another, without the zeros that follow each.
#[derive(Clone, Copy)]
pub struct ShortRows<'a> {
    pub words: WordVector<'a>,
    /// Words of each row.
    pub length: u32,
}

/// What a pass reads and writes. A pass in place has both in the same memory.
#[derive(Clone, Copy)]
pub(super) struct PassData<'a> {
    /// In natural order: of DIF the input, of DIT the output.
    pub natural: ShortRows<'a>,
    /// In bit-reversed order.
    pub reversed: WordVector<'a>,
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
            self.run_passes(stream, plan, data)?;
            return Ok(data);
        };
        if plan.transform.input_reversed {
            self.reverse(stream, lg_n, data, second)?;
            self.run_passes(stream, plan, second)?;
        } else {
            self.run_passes(stream, plan, data)?;
            self.reverse(stream, lg_n, data, second)?;
        }
        Ok(second)
    }

    fn run_passes(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        words: WordVector<'_>,
    ) -> Result<(), DeviceFault> {
        let run = |pass: &PlannedPass31| self.run_pass(stream, plan, pass, in_place(pass, words));
        let passes = &plan.passes;
        if plan.is_dit() {
            passes.iter().rev().try_for_each(run)
        } else {
            passes.iter().try_for_each(run)
        }
    }

    pub(super) fn run_pass(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        data: PassData<'_>,
    ) -> Result<(), DeviceFault> {
        match &pass.kind {
            PassKind31::Small => self.run_small(stream, plan, pass, data),
            PassKind31::Columns { .. } => self.run_columns(stream, plan, pass, data),
            PassKind31::Rows => self.run_rows(stream, plan, pass, data),
        }
    }

    fn run_small(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        PassData { natural, reversed: words }: PassData<'_>,
    ) -> Result<(), DeviceFault> {
        let lg_n = plan.transform.lg_n;
        let (points, frequencies) = pass.factors();
        let count = words.len() as u64 >> lg_n;
        let grid = grid((words.len() as u64).div_ceil(1 << LG_SMALL_TILE))?;
        let kernels = &self.kernels;
        let prime = plan.prime;
        let twiddles = pass.twiddles.all();
        let ShortRows { words: rows, length } = natural;
        let stride = length.into();
        if plan.is_dit() {
            let arguments =
                (words, rows, stride, length, twiddles, points, frequencies, lg_n, count, prime);
            return kernels.small_dit.launch(stream, grid, arguments);
        }
        let arguments =
            (rows, stride, length, words, twiddles, points, frequencies, lg_n, count, prime);
        kernels.small_dif.launch(stream, grid, arguments)
    }

    fn run_rows(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        PassData { natural, reversed: words }: PassData<'_>,
    ) -> Result<(), DeviceFault> {
        let (shape, (points, frequencies)) = (pass.shape, pass.factors());
        let count = words.len() as u64 >> shape.lg_r;
        let grid = rows_grid(shape, count)?;
        let kernels = self.kernels.rows(shape)?;
        let prime = plan.prime;
        let twiddles = pass.twiddles.all();
        let ShortRows { words: rows, length } = natural;
        let stride = length.into();
        if plan.is_dit() {
            let arguments =
                (words, rows, stride, length, twiddles, points, frequencies, count, prime);
            return kernels.dit.launch(stream, grid, arguments);
        }
        let arguments = (rows, stride, length, words, twiddles, points, frequencies, count, prime);
        kernels.dif.launch(stream, grid, arguments)
    }

    fn run_columns(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        PassData { natural, reversed: words }: PassData<'_>,
    ) -> Result<(), DeviceFault> {
        let PassKind31::Columns { lg_block, starts, steps } = &pass.kind else {
            return Err(mismatch("the pass has no columns".into()));
        };
        let grid = grid(words.len() as u64 >> pass.shape.lg_tile)?;
        let twiddles = pass.twiddles.all();
        let starts = starts.all();
        let steps = steps.all();
        let (points, _) = pass.factors();
        let lg_block = *lg_block;
        let prime = plan.prime;
        let kernels = self.kernels.columns(pass.shape)?;
        let ShortRows { words: rows, length } = natural;
        let stride = length.into();
        if plan.is_dit() {
            let arguments =
                (words, rows, stride, length, twiddles, starts, steps, points, lg_block, prime);
            return kernels.dit.launch(stream, grid, arguments);
        }
        let arguments =
            (rows, stride, length, words, twiddles, starts, steps, points, lg_block, prime);
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

/// Whole rows or blocks of `words`, which a pass transforms in place.
pub(super) fn in_place<'a>(pass: &PlannedPass31, words: WordVector<'a>) -> PassData<'a> {
    let lg_block = match pass.kind {
        PassKind31::Columns { lg_block, .. } => lg_block,
        PassKind31::Small | PassKind31::Rows => pass.shape.lg_r,
    };
    PassData { natural: ShortRows { words, length: 1 << lg_block }, reversed: words }
}

/// The blocks of a pass over rows.
pub(super) fn rows_grid(shape: PassShape, rows: impl Into<u64>) -> Result<u32, DeviceFault> {
    grid(rows.into().div_ceil(1 << shape.lg_lanes()))
}

impl PlannedPass31 {
    /// The factors of words in natural and in bit-reversed order.
    pub(super) fn factors(&self) -> (Option<DeviceSlice<'_, u64>>, Option<DeviceSlice<'_, u64>>) {
        (
            self.natural_factors.as_ref().map(|factors| factors.all()),
            self.reversed_factors.as_ref().map(|factors| factors.all()),
        )
    }
}

fn grid(blocks: u64) -> Result<u32, DeviceFault> {
    u32::try_from(blocks).map_err(|_| mismatch("the rows exceed the limit of one launch".into()))
}
