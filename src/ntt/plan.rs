//! Plans of transforms and their launches.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
};

use ark_ff::AdditiveGroup;

use super::{
    Decimation, DeviceFr, LG_N_MAX, NttLimits, NttPass, NttTransform,
    kernels::{COPY_THREADS, NttKernels, flag, name_of},
    table_budget::choose_passes,
    tables::{TwiddleTable, TwiddleTables},
    twiddles::{PassTwiddles, pass_twiddles},
    verify::{EvaluationTables, SecretPointEvaluator, TransformEnd},
};
use crate::{
    curve::Fr,
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    error::{Error, FieldProblem, Result},
};

/// The NTT kernels and twiddle tables of one device.
pub struct NttDevice {
    kernels: NttKernels,
    limits: NttLimits,
    tables: TwiddleTables,
    evaluator: SecretPointEvaluator,
}

/// The passes of a transform and their tables. Any number of threads may run it at a time.
pub struct NttPassPlan {
    transform: NttTransform,
    passes: Vec<PlannedPass>,
}

struct PlannedPass {
    pass: NttPass,
    lg_block: u32,
    flags: u32,
    /// Twiddles of the steps, or of a fused pass.
    twiddles: Arc<TwiddleTable>,
    rows: Option<Arc<TwiddleTable>>,
    inter_pass: Option<Arc<TwiddleTable>>,
}

impl NttDevice {
    /// Loads the kernels. The table cache takes up to `table_bytes_max` of the device's memory, see
    /// [`super::table_bytes_max`]; tables in use come on top.
    ///
    /// Errors: kernels that do not fit this device; driver errors.
    pub fn load(gpu: &Gpu, table_bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let kernels = NttKernels::load(gpu.context())?;
        let evaluator = SecretPointEvaluator::load(gpu.context(), gpu.arena())?;
        let limits = NttLimits::of(&gpu.identity().limits);
        Ok(Self { kernels, limits, tables: TwiddleTables::load(gpu, table_bytes_max)?, evaluator })
    }

    /// A plan tuned for about `rows` transforms at a time.
    ///
    /// Errors: `Invalid` if `lg_n` is above [`LG_N_MAX`] or the coset's generator is zero;
    /// `Exhausted` if there is no memory for the tables; `DeviceLost`.
    pub fn plan(&self, transform: &NttTransform, rows: usize) -> Result<NttPassPlan> {
        check_transform(transform)?;
        let table_bytes_max = self.tables.budget().table_bytes_max;
        let passes = choose_passes(transform, rows, table_bytes_max, &self.limits);
        self.plan_with_passes(transform, passes)
    }

    /// A plan with the caller's passes, in the order they run, for benchmarks: [`NttDevice::plan`]
    /// chooses the best.
    ///
    /// Shape: the passes' `lg_r` add up to `lg_n`.
    /// Errors: like [`NttDevice::plan`]; `Internal` if there is no kernel for a pass.
    pub fn plan_with_passes(
        &self,
        transform: &NttTransform,
        mut passes: Vec<NttPass>,
    ) -> Result<NttPassPlan> {
        check_transform(transform)?;
        let (lg_n, room) = (transform.lg_n, self.tables.budget());
        let merges = passes.iter().any(|pass| pass.fused);
        let fits = !merges || room.accepts_fused(transform, &passes);
        if !fits || !passes_fit(transform, &passes) {
            return Err(Error::Internal(format!("{passes:?} do not fit 2^{lg_n} elements")));
        }
        let mut plan = NttPassPlan { transform: *transform, passes: Vec::new() };
        if passes.is_empty() {
            return Ok(plan);
        }
        if !merges {
            room.fit_inter_pass_tables(transform.decimation(), lg_n, &mut passes);
        }
        let last = passes.len() - 1;
        for (i, (pass, factors)) in passes.iter().zip(pass_twiddles(transform, &passes)).enumerate()
        {
            let flags = flags(transform, &factors, pass, i == last);
            let rows = factors.rows_first.or(factors.rows_last);
            let planned = PlannedPass {
                pass: *pass,
                lg_block: factors.lg_block,
                flags,
                twiddles: match factors.merged {
                    Some(merged) => self.tables.fused(merged)?,
                    None => self.tables.tile(factors.steps)?,
                },
                rows: rows.map(|rows| self.tables.rows(rows)).transpose()?,
                inter_pass: factors
                    .border
                    .map(|border| self.tables.inter_pass(border))
                    .transpose()?,
            };
            // Reports a missing kernel now, not when the plan runs.
            let way = transform.decimation();
            match planned.inter_pass {
                _ if planned.is_fused_rows() => drop(self.kernels.merged_rows(way, pass)?),
                _ if pass.fused => drop(self.kernels.merged(way, pass)?),
                Some(_) => drop(self.kernels.columns(way, pass)?),
                None => drop(self.kernels.rows(way, pass, flags, last == 0)?),
            }
            plan.passes.push(planned);
        }
        Ok(plan)
    }

    /// Transforms `rows` contiguous vectors in `data` on `stream`, into `out` or in place. With
    /// `out`, the contents of `data` are unspecified afterwards.
    ///
    /// Shape: `data` and `out` have `rows` times 2^lg_n canonical elements. `out` is required if
    /// [`NttPassPlan::needs_output_buffer`], and does not overlap `data`.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &NttPassPlan,
        data: DeviceSlice<'_, DeviceFr>,
        rows: usize,
        out: Option<DeviceSlice<'_, DeviceFr>>,
    ) -> Result<(), DeviceFault> {
        let lg_n = plan.transform.lg_n;
        let count = rows << lg_n;
        let fits = data.len() == count && out.is_none_or(|out| out.len() == count);
        if !fits || (plan.needs_output_buffer() && out.is_none()) {
            let problem = format!("{rows} rows of 2^{lg_n} elements do not match the memory");
            return Err(DeviceFault::KernelMismatch { kernel: "ntt".into(), problem });
        }
        let Some(last) = plan.passes.len().checked_sub(1) else {
            let Some(out) = out else { return Ok(()) };
            let grid = blocks(2 * count as u64, COPY_THREADS.into())?;
            return self.kernels.copy.launch(stream, grid, (data, out, count as u64));
        };
        for number in 0..=last {
            let to = out.filter(|_| number == last).unwrap_or(data);
            self.run_pass(stream, plan, number, (data, to))?;
        }
        Ok(())
    }

    /// Runs one pass of a plan, from one span to another or in place; public for benchmarks.
    ///
    /// Shape: both spans have the same length, a multiple of 2^lg_n; `number` is below the number
    /// of passes.
    /// Errors: like [`NttDevice::run`].
    pub fn run_pass(
        &self,
        stream: &Stream,
        plan: &NttPassPlan,
        number: usize,
        (from, to): (DeviceSlice<'_, DeviceFr>, DeviceSlice<'_, DeviceFr>),
    ) -> Result<(), DeviceFault> {
        let (way, count) = (plan.transform.decimation(), from.len() as u64);
        let planned = &plan.passes[number];
        let &PlannedPass { pass, lg_block, flags, .. } = planned;
        let NttPass { lg_r, lg_c, .. } = pass;
        let grid = blocks(count, 1 << pass.lg_tile())?;
        let steps = planned.twiddles.lease().all();
        let rows = planned.rows.as_ref().map_or(steps, |rows| rows.lease().all());
        if planned.is_fused_rows() {
            let given = (from, to, steps, plan.transform.lg_n, flags);
            return self.kernels.merged_rows(way, &pass)?.launch(stream, grid, given);
        }
        if pass.fused {
            let border = planned.inter_pass.as_ref().map_or(steps, |border| border.lease().all());
            let given = (from, to, steps, border, plan.transform.lg_n, lg_block, flags);
            return self.kernels.merged(way, &pass)?.launch(stream, grid, given);
        }
        match &planned.inter_pass {
            Some(table) => {
                let border = table.lease().all();
                let given = (
                    from,
                    to,
                    steps,
                    rows,
                    border,
                    lg_block,
                    lg_r,
                    lg_c,
                    table.lg_first_level,
                    flags,
                );
                self.kernels.columns(way, &pass)?.launch(stream, grid, given)
            }
            None => {
                let lg_n = plan.transform.lg_n;
                let given = (from, to, steps, rows, lg_n, lg_r, lg_c, flags, count);
                let kernel = self.kernels.rows(way, &pass, flags, plan.passes.len() == 1)?;
                kernel.launch(stream, grid, given)
            }
        }
    }

    /// The tables with which [`NttDevice::evaluate`] evaluates one end of a transform.
    ///
    /// Errors: like [`NttDevice::plan`].
    pub fn evaluation_tables(
        &self,
        transform: &NttTransform,
        end: TransformEnd,
    ) -> Result<EvaluationTables> {
        check_transform(transform)?;
        Ok(self.evaluator.plan(&self.tables, transform, end)?)
    }

    /// Evaluates every row of `data`, which is not changed, at the secret point: one element per
    /// row. A transform is right if input and output of each row have the same evaluation; a wrong
    /// one passes with probability below 2^-222. Evaluations must be compared, not disclosed: they
    /// reveal the point.
    ///
    /// Shape: `data` is whole rows.
    /// Errors: `KernelMismatch` if it is not; driver errors.
    pub fn evaluate(
        &self,
        stream: &Stream,
        evaluation: &EvaluationTables,
        data: DeviceSlice<'_, DeviceFr>,
    ) -> Result<DeviceLease, DeviceFault> {
        self.evaluator.run(stream, evaluation, data)
    }

    /// Evicts all tables, so that later plans rebuild them, in case one is corrupt.
    pub fn evict_tables(&self) {
        self.tables.evict_all();
    }

    /// Bytes of the cached tables.
    pub fn table_bytes(&self) -> u64 {
        self.tables.bytes()
    }
}

impl PlannedPass {
    /// Whether this is a rows' pass with fused twiddles.
    fn is_fused_rows(&self) -> bool {
        self.pass.fused && self.lg_block == self.pass.lg_r
    }
}

impl NttPassPlan {
    /// The transform that this is a plan for.
    pub fn transform(&self) -> &NttTransform {
        &self.transform
    }

    /// Whether it cannot run in place, because the last of several passes does a bit reversal.
    pub fn needs_output_buffer(&self) -> bool {
        self.transform.needs_bit_reversal() && self.passes.len() > 1
    }

    /// Its passes, in the order they run.
    pub fn passes(&self) -> impl Iterator<Item = &NttPass> {
        self.passes.iter().map(|planned| &planned.pass)
    }
}

impl Display for NttPassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.passes.len() {
            0 => return write!(f, "no passes"),
            1 => write!(f, "1 pass of ")?,
            passes => write!(f, "{passes} passes of ")?,
        }
        for (i, NttPass { lg_r, .. }) in self.passes().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}2^{lg_r}")?;
        }
        Ok(())
    }
}

/// The names of the kernels that these passes of a transform launch.
///
/// Shape: the passes' `lg_r` add up to `lg_n`; the coset's generator is not zero.
pub fn kernel_names(transform: &NttTransform, passes: &[NttPass]) -> Vec<String> {
    let Some(last) = passes.len().checked_sub(1) else { return Vec::new() };
    let all = passes.iter().zip(pass_twiddles(transform, passes)).enumerate();
    let name = |(i, (pass, factors)): (usize, (&NttPass, PassTwiddles))| {
        let flags = flags(transform, &factors, pass, i == last);
        let is_rows = factors.lg_block == pass.lg_r;
        name_of(transform.decimation(), pass, flags, is_rows, last == 0)
    };
    all.map(name).collect()
}

fn check_transform(transform: &NttTransform) -> Result<()> {
    if transform.lg_n > LG_N_MAX {
        return Err(Error::field("lg_n", FieldProblem::TooLarge { max: LG_N_MAX.into() }));
    }
    if transform.coset == Some(Fr::ZERO) {
        return Err(Error::field("coset", FieldProblem::Zero));
    }
    Ok(())
}

/// Whether the passes' radices, columns and inter-pass twiddles suit the transform.
fn passes_fit(transform: &NttTransform, passes: &[NttPass]) -> bool {
    let mut downward: Vec<_> = passes.iter().collect();
    if transform.decimation() == Decimation::Dit {
        downward.reverse();
    }
    let mut lg_block = transform.lg_n;
    let last = downward.len().saturating_sub(1);
    for (i, &&NttPass { lg_r, lg_c, lg_e, multiples: kept, fused: merged }) in
        downward.iter().enumerate()
    {
        let whole = if i == last { transform.lg_n } else { lg_block };
        let fits = lg_r <= lg_block && (last == 0 || lg_c <= whole - lg_r);
        if !fits || (!merged && (kept == 0) != (i == last)) || lg_r + lg_c <= lg_e {
            return false;
        }
        lg_block -= lg_r;
    }
    lg_block == 0
}

fn blocks(count: u64, tile: u64) -> Result<u32, DeviceFault> {
    let grid = count.div_ceil(tile);
    u32::try_from(grid).map_err(|_| DeviceFault::KernelMismatch {
        kernel: "ntt".into(),
        problem: format!("{grid} blocks exceed the limit of one launch"),
    })
}

fn flags(transform: &NttTransform, factors: &PassTwiddles, pass: &NttPass, last: bool) -> u32 {
    let is_rows = factors.lg_block == pass.lg_r;
    let flags = [
        (transform.inverse, flag::INVERSE),
        (factors.rows_first.is_some(), flag::ROWS_FIRST),
        (factors.rows_last.is_some(), flag::ROWS_LAST),
        (factors.steps.scaled.is_some(), flag::TOP_SCALED),
        (last, flag::CANONICAL),
        (last && transform.needs_bit_reversal(), flag::BIT_REVERSED),
        (factors.has_unit_twiddles(), flag::UNIT_TWIDDLES),
        (transform.inverse && pass.fused && is_rows, flag::DIVIDE_BY_N),
    ];
    flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag).sum()
}
