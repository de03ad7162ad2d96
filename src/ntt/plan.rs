//! From a transform to its launches.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
};

use ark_ff::AdditiveGroup;

use super::{
    Element, LG_N_MAX, Pass, Transform, TransformLimits, Way,
    choice::chosen,
    coset::{Factors, factors},
    evaluate::{End, Evaluation, Evaluator},
    kernels::{Kernels, THREADS, flag, name_of},
    tables::{Table, Tables},
};
use crate::{
    curve::Fr,
    device::{Fault, Gpu, Lease, Span, Stream, Unusable},
    error::{Error, Problem, Result},
};

/// Kernels and tables of one device.
pub struct Transforms {
    kernels: Kernels,
    limits: TransformLimits,
    tables: Tables,
    evaluator: Evaluator,
}

/// How a transform is done, with the tables for it. Any number of threads may run it at a time.
pub struct Plan {
    transform: Transform,
    passes: Vec<Planned>,
}

struct Planned {
    pass: Pass,
    lg_block: u32,
    flags: u32,
    /// Of steps, or of a merged pass.
    steps: Arc<Table>,
    rows: Option<Arc<Table>>,
    border: Option<Arc<Table>>,
}

impl Transforms {
    /// Loads the kernels. Tables that are kept for later take up to `table_bytes_max` of the
    /// device's memory, and those in use besides: [`super::table_bytes_max`] says what is good.
    ///
    /// Errors: kernels that are not for this device; what the driver says.
    pub fn load(gpu: &Gpu, table_bytes_max: u64) -> Result<Self, Unusable> {
        let kernels = Kernels::load(gpu.context())?;
        let evaluator = Evaluator::load(gpu.context(), gpu.arena())?;
        let limits = TransformLimits::of(&gpu.identity().limits);
        Ok(Self { kernels, limits, tables: Tables::load(gpu, table_bytes_max)?, evaluator })
    }

    /// A plan that is good for about `rows` transforms at a time.
    ///
    /// Errors: `Invalid` where `lg_n` is above [`LG_N_MAX`] or the coset's generator is zero;
    /// `Exhausted` where the tables find no room; `DeviceLost`.
    pub fn plan(&self, transform: &Transform, rows: usize) -> Result<Plan> {
        check(transform)?;
        let table_bytes_max = self.tables.room().table_bytes_max;
        let passes = chosen(transform, rows, table_bytes_max, &self.limits);
        self.plan_of(transform, passes)
    }

    /// A plan of given passes, in the order they run. For measurements: [`Transforms::plan`] knows
    /// which are best.
    ///
    /// Shape: the passes' `lg_r` add up to `lg_n`.
    /// Errors: as [`Transforms::plan`]; `Internal` where there is no kernel for a pass.
    pub fn plan_of(&self, transform: &Transform, mut passes: Vec<Pass>) -> Result<Plan> {
        check(transform)?;
        let (lg_n, room) = (transform.lg_n, self.tables.room());
        let merges = passes.iter().any(|pass| pass.merged);
        let fits = !merges || room.are_merged(transform, &passes);
        if !fits || !are_of(transform, &passes) {
            return Err(Error::Internal(format!("{passes:?} are not of 2^{lg_n} elements")));
        }
        let mut plan = Plan { transform: *transform, passes: Vec::new() };
        if passes.is_empty() {
            return Ok(plan);
        }
        if !merges {
            room.fit_borders(transform.way(), lg_n, &mut passes);
        }
        let last = passes.len() - 1;
        for (i, (pass, factors)) in passes.iter().zip(factors(transform, &passes)).enumerate() {
            let flags = flags(transform, &factors, pass, i == last);
            let rows = factors.rows_first.or(factors.rows_last);
            let planned = Planned {
                pass: *pass,
                lg_block: factors.lg_block,
                flags,
                steps: match factors.merged {
                    Some(merged) => self.tables.merged(merged)?,
                    None => self.tables.steps(factors.steps)?,
                },
                rows: rows.map(|rows| self.tables.rows(rows)).transpose()?,
                border: factors.border.map(|border| self.tables.border(border)).transpose()?,
            };
            // That there is a kernel shows now, not when it runs.
            let way = transform.way();
            match planned.border {
                _ if planned.is_merged_rows() => drop(self.kernels.merged_rows(way, pass)?),
                _ if pass.merged => drop(self.kernels.merged(way, pass)?),
                Some(_) => drop(self.kernels.columns(way, pass)?),
                None => drop(self.kernels.rows(way, pass, flags, last == 0)?),
            }
            plan.passes.push(planned);
        }
        Ok(plan)
    }

    /// Transforms `rows` vectors that follow each other in `data`, on `stream`: into `out`, else in
    /// place. With `out`, `data` is in no defined state afterwards.
    ///
    /// Shape: `data` and `out` have `rows` times 2^lg_n canonical elements. `out` is there if
    /// [`Plan::needs_out`], and is another part of memory.
    /// Errors: `Kernel` where the shape is another; what the driver says.
    pub fn run(
        &self,
        stream: &Stream,
        plan: &Plan,
        data: Span<'_, Element>,
        rows: usize,
        out: Option<Span<'_, Element>>,
    ) -> Result<(), Fault> {
        let lg_n = plan.transform.lg_n;
        let count = rows << lg_n;
        let fits = data.len() == count && out.is_none_or(|out| out.len() == count);
        if !fits || (plan.needs_out() && out.is_none()) {
            let problem = format!("{rows} rows of 2^{lg_n} want other memory");
            return Err(Fault::Kernel { kernel: "ntt".into(), problem });
        }
        let Some(last) = plan.passes.len().checked_sub(1) else {
            let Some(out) = out else { return Ok(()) };
            let grid = blocks(2 * count as u64, THREADS.into())?;
            return self.kernels.copy.launch(stream, grid, (data, out, count as u64));
        };
        for number in 0..=last {
            let to = out.filter(|_| number == last).unwrap_or(data);
            self.run_pass(stream, plan, number, (data, to))?;
        }
        Ok(())
    }

    /// Runs one pass of a plan, as a step of [`Transforms::run`] or to measure it, from some memory
    /// to the same or another.
    ///
    /// Shape: both have as many elements, a multiple of 2^lg_n; `number` is below that of passes.
    /// Errors: as [`Transforms::run`].
    pub fn run_pass(
        &self,
        stream: &Stream,
        plan: &Plan,
        number: usize,
        (from, to): (Span<'_, Element>, Span<'_, Element>),
    ) -> Result<(), Fault> {
        let (way, count) = (plan.transform.way(), from.len() as u64);
        let planned = &plan.passes[number];
        let &Planned { pass, lg_block, flags, .. } = planned;
        let Pass { lg_r, lg_c, .. } = pass;
        let grid = blocks(count, 1 << pass.lg_tile())?;
        let steps = planned.steps.lease().all();
        let rows = planned.rows.as_ref().map_or(steps, |rows| rows.lease().all());
        if planned.is_merged_rows() {
            let given = (from, to, steps, plan.transform.lg_n, flags);
            return self.kernels.merged_rows(way, &pass)?.launch(stream, grid, given);
        }
        if pass.merged {
            let border = planned.border.as_ref().map_or(steps, |border| border.lease().all());
            let given = (from, to, steps, border, plan.transform.lg_n, lg_block, flags);
            return self.kernels.merged(way, &pass)?.launch(stream, grid, given);
        }
        match &planned.border {
            Some(table) => {
                let border = table.lease().all();
                let given =
                    (from, to, steps, rows, border, lg_block, lg_r, lg_c, table.lg_low, flags);
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

    /// What [`Transforms::evaluate`] takes for one end of a transform.
    ///
    /// Errors: as [`Transforms::plan`].
    pub fn evaluation(&self, transform: &Transform, end: End) -> Result<Evaluation> {
        check(transform)?;
        Ok(self.evaluator.plan(&self.tables, transform, end)?)
    }

    /// Evaluates every row of `data`, which is not changed, at the secret point; gives an element a
    /// row. Where input and output of a row have the same, the transform is right, and where it is
    /// not they differ but for a chance below 2^-222. The elements stay with those who may know
    /// the point: they are compared, not told.
    ///
    /// Shape: `data` is whole rows.
    /// Errors: `Kernel` where it is not; what the driver says.
    pub fn evaluate(
        &self,
        stream: &Stream,
        evaluation: &Evaluation,
        data: Span<'_, Element>,
    ) -> Result<Lease, Fault> {
        self.evaluator.run(stream, evaluation, data)
    }

    /// Makes all tables anew for later plans: where a result is wrong, one of them may be.
    pub fn forget_tables(&self) {
        self.tables.forget();
    }

    /// Bytes of the tables that are kept for later transforms.
    pub fn table_bytes(&self) -> u64 {
        self.tables.bytes()
    }
}

impl Planned {
    /// Whether its blocks are its rows, and its factors merged.
    fn is_merged_rows(&self) -> bool {
        self.pass.merged && self.lg_block == self.pass.lg_r
    }
}

impl Plan {
    /// What it computes.
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Whether it cannot be run in place: the last of several passes changes the order.
    pub fn needs_out(&self) -> bool {
        self.transform.is_turned() && self.passes.len() > 1
    }

    /// Its passes, in the order they run.
    pub fn passes(&self) -> impl Iterator<Item = &Pass> {
        self.passes.iter().map(|planned| &planned.pass)
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.passes.len() {
            0 => return write!(f, "no passes"),
            1 => write!(f, "1 pass of ")?,
            passes => write!(f, "{passes} passes of ")?,
        }
        for (i, Pass { lg_r, .. }) in self.passes().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}2^{lg_r}")?;
        }
        Ok(())
    }
}

/// The names of the kernels that these passes of a transform launch.
///
/// Shape: the passes' `lg_r` add up to `lg_n`; the coset's generator is not zero.
pub fn kernel_names(transform: &Transform, passes: &[Pass]) -> Vec<String> {
    let Some(last) = passes.len().checked_sub(1) else { return Vec::new() };
    let all = passes.iter().zip(factors(transform, passes)).enumerate();
    let name = |(i, (pass, factors)): (usize, (&Pass, Factors))| {
        let flags = flags(transform, &factors, pass, i == last);
        let is_rows = factors.lg_block == pass.lg_r;
        name_of(transform.way(), pass, flags, is_rows, last == 0)
    };
    all.map(name).collect()
}

fn check(transform: &Transform) -> Result<()> {
    if transform.lg_n > LG_N_MAX {
        return Err(Error::field("lg_n", Problem::TooLarge { max: LG_N_MAX.into() }));
    }
    if transform.coset == Some(Fr::ZERO) {
        return Err(Error::field("coset", Problem::Zero));
    }
    Ok(())
}

/// Whether radices, columns and borders are those of a transform of that size.
fn are_of(transform: &Transform, passes: &[Pass]) -> bool {
    let mut downward: Vec<_> = passes.iter().collect();
    if transform.way() == Way::Ascend {
        downward.reverse();
    }
    let mut lg_block = transform.lg_n;
    let last = downward.len().saturating_sub(1);
    for (i, &&Pass { lg_r, lg_c, lg_e, kept, merged }) in downward.iter().enumerate() {
        let whole = if i == last { transform.lg_n } else { lg_block };
        let fits = lg_r <= lg_block && (last == 0 || lg_c <= whole - lg_r);
        if !fits || (!merged && (kept == 0) != (i == last)) || lg_r + lg_c <= lg_e {
            return false;
        }
        lg_block -= lg_r;
    }
    lg_block == 0
}

fn blocks(count: u64, tile: u64) -> Result<u32, Fault> {
    let grid = count.div_ceil(tile);
    u32::try_from(grid).map_err(|_| Fault::Kernel {
        kernel: "ntt".into(),
        problem: format!("{grid} blocks are too many for one launch"),
    })
}

fn flags(transform: &Transform, factors: &Factors, pass: &Pass, last: bool) -> u32 {
    let is_rows = factors.lg_block == pass.lg_r;
    let flags = [
        (transform.inverse, flag::INVERSE),
        (factors.rows_first.is_some(), flag::ROWS_FIRST),
        (factors.rows_last.is_some(), flag::ROWS_LAST),
        (factors.steps.scaled.is_some(), flag::WHOLE),
        (last, flag::CANONICAL),
        (last && transform.is_turned(), flag::TURNED),
        (factors.is_plain(), flag::PLAIN),
        (transform.inverse && pass.merged && is_rows, flag::DIVIDED),
    ];
    flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag).sum()
}
