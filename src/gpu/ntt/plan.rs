//! Plans of transforms and their launches.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
};

use ark_ff::{AdditiveGroup, Field};

use super::{
    elements::{DeviceFr, LG_N_MAX},
    kernels::{COPY_THREADS, KernelChoice, NttKernels, PassKernel, flag},
    passes::{NttLimits, NttPass, in_dif_order, lg_blocks},
    table_budget::choose_passes,
    tables::{TwiddleTable, TwiddleTables},
    twiddles::{FusedTwiddles, PassTwiddles, pass_twiddles},
    verify::{EvaluationTables, SecretPointEvaluator, TransformEnd},
};
use crate::{
    curve::{Decimation, Fr, NttPlan},
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    error::{FieldProblem, InputError},
};

pub struct NttDevice {
    kernels: NttKernels,
    limits: NttLimits,
    tables: TwiddleTables,
    evaluator: SecretPointEvaluator,
}

/// The passes of a transform and their tables. Any number of threads may run it at a time.
pub struct NttPassPlan {
    transform: NttPlan,
    passes: Vec<PlannedPass>,
}

struct PlannedPass {
    pass: NttPass,
    kernel: PassKernel,
    lg_block: u32,
    flags: u32,
    /// Twiddles within a tile, or of a fused pass.
    twiddles: Arc<TwiddleTable>,
    row_factors: Option<Arc<TwiddleTable>>,
    inter_pass: Option<Arc<TwiddleTable>>,
}

impl NttDevice {
    /// Loads the kernels. The table cache takes up to `table_bytes_max` of the device's memory, see
    /// [`super::table_bytes_max`]; tables in use come on top.
    pub fn load(gpu: &Gpu, table_bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let kernels = NttKernels::load(gpu.context())?;
        let evaluator = SecretPointEvaluator::load(gpu.context(), gpu.arena())?;
        let limits = NttLimits::of(&gpu.identity().limits);
        Ok(Self { kernels, limits, tables: TwiddleTables::load(gpu, table_bytes_max)?, evaluator })
    }

    /// A plan tuned for about `rows` transforms at a time.
    ///
    /// Errors: `Invalid` if `lg_n` is above [`LG_N_MAX`] or the coset's generator is zero;
    /// `OutOfMemory`; driver errors.
    pub fn plan(&self, transform: &NttPlan, rows: usize) -> Result<NttPassPlan, DeviceFault> {
        check_transform(transform)?;
        let table_bytes_max = self.tables.budget().table_bytes_max;
        let passes = choose_passes(transform, rows, table_bytes_max, &self.limits);
        self.plan_with_passes(transform, passes)
    }

    /// A plan with the caller's passes, in the order they run, for benchmarks: [`NttDevice::plan`]
    /// chooses the best.
    ///
    /// Shape: the passes' `lg_r` add up to `lg_n`.
    /// Errors: like [`NttDevice::plan`]; `KernelMismatch` if there is no kernel for a pass.
    pub fn plan_with_passes(
        &self,
        transform: &NttPlan,
        mut passes: Vec<NttPass>,
    ) -> Result<NttPassPlan, DeviceFault> {
        check_transform(transform)?;
        let lg_n = transform.lg_n;
        let budget = self.tables.budget();
        let has_fused = passes.iter().any(|pass| pass.fused);
        let fits = !has_fused || budget.accepts_fused(transform, &passes);
        if !fits || !passes_fit(transform, &passes) {
            return Err(DeviceFault::mismatch(
                "ntt",
                format!("{passes:?} do not fit 2^{lg_n} elements"),
            ));
        }
        if !has_fused {
            budget.fit_inter_pass_tables(transform.decimation(), &mut passes);
        }
        let mut plan = NttPassPlan { transform: *transform, passes: Vec::new() };
        for PassContents { choice, twiddles } in pass_contents(transform, &passes) {
            let PassTwiddles { lg_block, tile, fused, inter_pass, row_factors } = twiddles;
            plan.passes.push(PlannedPass {
                pass: choice.pass,
                kernel: self.kernels.get(&choice)?,
                lg_block,
                flags: choice.flags,
                twiddles: match fused {
                    Some(fused) => self.tables.fused(fused)?,
                    None => self.tables.tile(tile)?,
                },
                row_factors: row_factors.map(|rows| self.tables.rows(rows)).transpose()?,
                inter_pass: inter_pass.map(|table| self.tables.inter_pass(table)).transpose()?,
            });
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
            self.run_pass(stream, plan, number, data, to)?;
        }
        Ok(())
    }

    /// Runs one pass of a plan, from one vector to another or in place; public for benchmarks.
    ///
    /// Shape: both vectors have the same length, a multiple of 2^lg_n; `number` is below the number
    /// of passes.
    /// Errors: like [`NttDevice::run`].
    pub fn run_pass(
        &self,
        stream: &Stream,
        plan: &NttPassPlan,
        number: usize,
        from: DeviceSlice<'_, DeviceFr>,
        to: DeviceSlice<'_, DeviceFr>,
    ) -> Result<(), DeviceFault> {
        let lg_n = plan.transform.lg_n;
        let count = from.len() as u64;
        let planned = &plan.passes[number];
        let &PlannedPass { pass, lg_block, flags, .. } = planned;
        let NttPass { lg_r, lg_c, .. } = pass;
        let grid = blocks(count, 1 << pass.lg_tile())?;
        let twiddles = planned.twiddles.all();
        let row_factors = planned.row_factors.as_ref().map_or(twiddles, |table| table.all());
        let inter_pass = planned.inter_pass.as_ref().unwrap_or(&planned.twiddles);
        let (inter_pass, lg_low) = (inter_pass.all(), inter_pass.lg_first_level);
        match &planned.kernel {
            PassKernel::Columns(kernel) => kernel.launch(
                stream,
                grid,
                (from, to, twiddles, row_factors, inter_pass, lg_block, lg_r, lg_c, lg_low, flags),
            ),
            PassKernel::Rows(kernel) => {
                let arguments = (from, to, twiddles, row_factors, lg_n, lg_r, lg_c, flags, count);
                kernel.launch(stream, grid, arguments)
            }
            PassKernel::FusedColumns(kernel) => {
                let arguments = (from, to, twiddles, inter_pass, lg_n, lg_block, flags);
                kernel.launch(stream, grid, arguments)
            }
            PassKernel::FusedRows(kernel) => {
                kernel.launch(stream, grid, (from, to, twiddles, lg_n, flags))
            }
        }
    }

    pub fn evaluation_tables(
        &self,
        transform: &NttPlan,
        end: TransformEnd,
    ) -> Result<EvaluationTables, DeviceFault> {
        check_transform(transform)?;
        self.evaluator.plan(&self.tables, transform, end)
    }

    /// Evaluates every row of `data`, which is not changed, at the secret point: one element per
    /// row. A transform is right if input and output of each row have the same evaluation; a wrong
    /// one passes with probability below 2^-222. Evaluations must be compared, not disclosed: they
    /// reveal the point.
    ///
    /// Errors: `KernelMismatch` if `data` is not whole rows; driver errors.
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
        self.tables.cache.clear();
    }
}

impl NttPassPlan {
    pub fn transform(&self) -> &NttPlan {
        &self.transform
    }

    /// Whether the plan cannot run in place: the last of several passes does a bit reversal.
    pub fn needs_output_buffer(&self) -> bool {
        self.transform.needs_bit_reversal() && self.passes.len() > 1
    }

    /// In the order they run.
    pub fn passes(&self) -> impl Iterator<Item = &NttPass> {
        self.passes.iter().map(|planned| &planned.pass)
    }
}

impl Display for NttPassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let radices: Vec<_> = self.passes().map(|pass| format!("2^{}", pass.lg_r)).collect();
        match radices.len() {
            0 => write!(f, "no passes"),
            1 => write!(f, "1 pass of {}", radices[0]),
            passes => write!(f, "{passes} passes of {}", radices.join(", ")),
        }
    }
}

/// The names of the kernels that these passes of a transform launch.
///
/// Shape: the passes' `lg_r` add up to `lg_n`; the coset's generator is not zero.
pub fn kernel_names(transform: &NttPlan, passes: &[NttPass]) -> Vec<String> {
    pass_contents(transform, passes).map(|pass| pass.choice.name()).collect()
}

/// A pass's kernel and the contents of its tables.
struct PassContents {
    choice: KernelChoice,
    twiddles: PassTwiddles,
}

fn pass_contents(transform: &NttPlan, passes: &[NttPass]) -> impl Iterator<Item = PassContents> {
    let last = passes.len().saturating_sub(1);
    let twiddles = pass_twiddles(transform, passes).into_iter();
    passes.iter().zip(twiddles).enumerate().map(move |(i, (pass, twiddles))| {
        let (is_rows, is_last) = (twiddles.lg_block == pass.lg_r, i == last);
        let has_row_factors = twiddles.row_factors.is_some();
        // Two twiddles of the first step are 1.
        let has_units = |fused: FusedTwiddles| fused.lg_above == 0 && fused.base == Fr::ONE;
        let flags = [
            (transform.inverse, flag::INVERSE),
            (has_row_factors && !transform.inverse, flag::ROWS_FIRST),
            (has_row_factors && transform.inverse, flag::ROWS_LAST),
            (twiddles.tile.scaled.is_some(), flag::TOP_SCALED),
            (is_last, flag::CANONICAL),
            (is_last && transform.needs_bit_reversal(), flag::BIT_REVERSED),
            (twiddles.fused.is_some_and(has_units), flag::UNIT_TWIDDLES),
            (transform.inverse && pass.fused && is_rows, flag::DIVIDE_BY_N),
        ];
        let choice = KernelChoice {
            decimation: transform.decimation(),
            pass: *pass,
            flags: flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum(),
            is_rows,
            is_whole_transform: last == 0,
        };
        PassContents { choice, twiddles }
    })
}

fn check_transform(transform: &NttPlan) -> Result<(), DeviceFault> {
    let refused = |field, problem| Err(DeviceFault::Input(InputError::field(field, problem)));
    if transform.lg_n > LG_N_MAX {
        return refused("lg_n", FieldProblem::TooLarge { max: LG_N_MAX.into() });
    }
    if transform.coset == Some(Fr::ZERO) {
        return refused("coset", FieldProblem::Zero);
    }
    Ok(())
}

/// Whether the passes' radices, columns and inter-pass twiddles suit the transform.
fn passes_fit(transform: &NttPlan, passes: &[NttPass]) -> bool {
    let lg_n = transform.lg_n;
    if passes.iter().map(|pass| pass.lg_r).sum::<u32>() != lg_n {
        return false;
    }
    let passes = in_dif_order(passes, transform.decimation());
    let last = passes.len().saturating_sub(1);
    passes.iter().zip(lg_blocks(&passes, Decimation::Dif)).enumerate().all(
        |(i, (pass, lg_block))| {
            let &NttPass { lg_r, lg_c, lg_e, multiples, fused } = pass;
            let lg_across = if i == last { lg_n } else { lg_block } - lg_r;
            (last == 0 || lg_c <= lg_across)
                && (fused || (multiples == 0) == (i == last))
                && lg_r + lg_c > lg_e
        },
    )
}

fn blocks(count: u64, tile: u64) -> Result<u32, DeviceFault> {
    let grid = count.div_ceil(tile);
    u32::try_from(grid).map_err(|_| DeviceFault::KernelMismatch {
        kernel: "ntt".into(),
        problem: format!("{grid} blocks exceed the limit of one launch"),
    })
}
