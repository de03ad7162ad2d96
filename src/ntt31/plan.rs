//! Plans of transforms and their launches.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
};

use super::{
    cuts::{lg_radices, passes_fit},
    elements::{PrimeParameters, prime_parameters},
    kernels::{Ntt31Kernels, flag31, lg_lanes, lg_tile, mismatch},
    tables::{ColumnPowers, PassFactors, TileTwiddles31, TwiddleTables31},
};
use crate::{
    curve::NttPlan,
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    error::{Error, FieldProblem, Result},
    field::{Arithmetic, Element31, Field31},
};

/// The kernels and twiddle tables of a device, for all primes.
pub struct Ntt31Device {
    kernels: Ntt31Kernels,
    tables: TwiddleTables31,
}

/// The passes of a transform and their tables. Any number of threads may run it at a time.
pub struct Ntt31PassPlan {
    transform: NttPlan<Element31>,
    prime: PrimeParameters,
    passes: Vec<PlannedPass31>,
}

struct PlannedPass31 {
    lg_r: u32,
    flags: u32,
    twiddles: Arc<DeviceLease>,
    /// Before the first pass's transforms, or after the last one's.
    factors: Option<Arc<DeviceLease>>,
    /// For passes of columns.
    columns: Option<ColumnTables>,
}

struct ColumnTables {
    lg_block: u32,
    starts: Arc<DeviceLease>,
    steps: Arc<DeviceLease>,
}

/// The powers that a transform multiplies its elements by, in addition to the twiddles.
struct Coset31 {
    /// The coset's generator, inverted for inverse transforms; 1 without a coset.
    base: Element31,
    /// 1, or 1/n for inverse transforms.
    scale: Element31,
}

impl Ntt31Device {
    /// Loads the kernels. The table cache takes up to `table_bytes_max` of the device's memory;
    /// tables in use come on top.
    pub fn load(gpu: &Gpu, table_bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let tables = TwiddleTables31::new(gpu, table_bytes_max)?;
        Ok(Self { kernels: Ntt31Kernels::load(gpu)?, tables })
    }

    /// Errors: `Invalid` if `lg_n` is above the field's two-adicity or the coset's generator is
    /// zero; `Exhausted` if there is no memory for the tables; `DeviceLost`.
    pub fn plan(&self, field: Field31, transform: &NttPlan<Element31>) -> Result<Ntt31PassPlan> {
        let max = field.id().two_adicity();
        let radices = lg_radices(transform.lg_n).filter(|_| transform.lg_n <= max);
        let too_large = Error::field("lg_n", FieldProblem::TooLarge { max: max.into() });
        self.plan_with_radices(field, transform, radices.ok_or(too_large)?)
    }

    /// A plan with the caller's passes, for benchmarks: [`Ntt31Device::plan`] chooses the best.
    ///
    /// Shape: the logarithms of the radices add up to `lg_n`.
    /// Errors: like [`Ntt31Device::plan`]; `Internal` if there are no kernels for these passes.
    pub fn plan_with_radices(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        radices: &[u32],
    ) -> Result<Ntt31PassPlan> {
        let lg_n = transform.lg_n;
        if lg_n > field.id().two_adicity() || !passes_fit(lg_n, radices) {
            return Err(Error::Internal(format!("{radices:?} do not fit 2^{lg_n} elements")));
        }
        let coset = Coset31::of(field, transform)?;
        let mut plan = Ntt31PassPlan {
            transform: *transform,
            prime: prime_parameters(field, transform.inverse),
            passes: Vec::new(),
        };
        let mut lg_block = lg_n;
        for (number, &lg_r) in radices.iter().enumerate() {
            let (is_first, is_last) = (number == 0, number + 1 == radices.len());
            let factors = coset.factors(field, transform, lg_r, is_first, is_last);
            let flags = [
                (is_first && transform.input_reversed, flag31::INPUT_REVERSED),
                (is_last && !transform.output_reversed, flag31::OUTPUT_NATURAL),
                (factors.is_some(), flag31::SCALED),
            ];
            let inverse = transform.inverse;
            let powers = coset.column_powers(field, transform, lg_block, lg_r);
            let columns = || {
                let (starts, steps) =
                    (self.tables.starts(powers.clone())?, self.tables.steps(powers)?);
                Ok::<_, DeviceFault>(ColumnTables { lg_block, starts, steps })
            };
            plan.passes.push(PlannedPass31 {
                lg_r,
                flags: flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum(),
                twiddles: self.tables.tile(TileTwiddles31 { field, lg_r, inverse })?,
                factors: factors.map(|factors| self.tables.factors(factors)).transpose()?,
                columns: (!is_last).then(columns).transpose()?,
            });
            lg_block -= lg_r;
        }
        Ok(plan)
    }

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
        let is_whole = |words: DeviceSlice<'_, u32>| words.len() as u64 == count;
        let fits = is_whole(data) && second.is_none_or(is_whole);
        if !fits || (plan.needs_second_buffer() && second.is_none()) {
            return Err(mismatch(format!("{rows} rows of 2^{lg_n} words do not match the memory")));
        }
        if let [pass] = plan.passes.as_slice() {
            self.run_single(stream, plan, pass, data, rows)?;
            return Ok(data);
        }
        let (mut from, mut other) = (data, second.unwrap_or(data));
        for pass in &plan.passes {
            let is_moved = pass.flags & (flag31::INPUT_REVERSED | flag31::OUTPUT_NATURAL) != 0;
            let to = if is_moved { other } else { from };
            self.run_pass(stream, plan, pass, from, to)?;
            if is_moved {
                (from, other) = (to, from);
            }
        }
        Ok(from)
    }

    fn run_single(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        data: DeviceSlice<'_, u32>,
        rows: u32,
    ) -> Result<(), DeviceFault> {
        let factors = pass.factors.as_ref().map(|factors| factors.all());
        let is_after = plan.transform.inverse;
        let (before, after) = (factors.filter(|_| !is_after), factors.filter(|_| is_after));
        let grid = rows.div_ceil(1 << lg_lanes(pass.lg_r));
        let twiddles = pass.twiddles.all();
        let arguments = (data, data, twiddles, before, after, rows, pass.flags, plan.prime);
        self.kernels.single(pass.lg_r)?.launch(stream, grid, arguments)
    }

    /// Runs one of several passes.
    fn run_pass(
        &self,
        stream: &Stream,
        plan: &Ntt31PassPlan,
        pass: &PlannedPass31,
        from: DeviceSlice<'_, u32>,
        to: DeviceSlice<'_, u32>,
    ) -> Result<(), DeviceFault> {
        let &PlannedPass31 { lg_r, flags, .. } = pass;
        let grid = u32::try_from(from.len() >> lg_tile(lg_r))
            .map_err(|_| mismatch("the rows exceed the limit of one launch".into()))?;
        let twiddles = pass.twiddles.all();
        let factors = pass.factors.as_ref().map_or(twiddles, |factors| factors.all());
        let Some(ColumnTables { lg_block, starts, steps }) = &pass.columns else {
            let arguments = (from, to, twiddles, factors, plan.transform.lg_n, flags, plan.prime);
            return self.kernels.last(lg_r)?.launch(stream, grid, arguments);
        };
        let (starts, steps) = (starts.all(), steps.all());
        let arguments = (from, to, twiddles, starts, steps, factors, *lg_block, flags, plan.prime);
        self.kernels.columns(lg_r)?.launch(stream, grid, arguments)
    }

    /// Evicts all tables, so that later plans build them again, in case one is corrupt.
    pub fn evict_tables(&self) {
        self.tables.evict_all();
    }
}

impl Coset31 {
    fn of(field: Field31, transform: &NttPlan<Element31>) -> Result<Self> {
        let invert =
            |element| field.inverse(element).ok_or(Error::field("coset", FieldProblem::Zero));
        let generator = transform.coset.unwrap_or(field.one());
        let inverted = invert(generator)?;
        Ok(match transform.inverse {
            false => Self { base: generator, scale: field.one() },
            true => Self { base: inverted, scale: invert(field.element(1 << transform.lg_n))? },
        })
    }

    /// The factors of a pass; `None` if it has none.
    fn factors(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        lg_r: u32,
        is_first: bool,
        is_last: bool,
    ) -> Option<PassFactors> {
        let is_scaled = match transform.inverse {
            false => is_first && transform.coset.is_some(),
            true => is_last,
        };
        // Points of the first pass, and frequencies of the last one, are 2^(lg_n - lg_r) apart.
        let base = field.power(self.base, 1 << (transform.lg_n - lg_r));
        is_scaled.then_some(PassFactors { field, lg_r, base, scale: self.scale })
    }

    /// The powers of a pass of columns of blocks of 2^`lg_block` words.
    fn column_powers(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        lg_block: u32,
        lg_r: u32,
    ) -> ColumnPowers {
        let &NttPlan { lg_n, inverse, .. } = transform;
        let is_first = lg_block == lg_n;
        let column = if is_first && !inverse { self.base } else { field.one() };
        // A frequency counts this often in the output's index.
        let row = field.power(self.base, 1 << (lg_n - lg_block));
        let row = if inverse { row } else { field.one() };
        ColumnPowers { field, lg_block, lg_r, inverse, column, row }
    }
}

impl Ntt31PassPlan {
    pub fn transform(&self) -> &NttPlan<Element31> {
        &self.transform
    }

    /// Whether the plan cannot run in place: one of several passes changes the order.
    pub fn needs_second_buffer(&self) -> bool {
        let NttPlan { input_reversed, output_reversed, .. } = self.transform;
        self.passes.len() > 1 && (input_reversed || !output_reversed)
    }
}

impl Display for Ntt31PassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let radices: Vec<_> = self.passes.iter().map(|pass| format!("2^{}", pass.lg_r)).collect();
        match radices.len() {
            0 => write!(f, "no passes"),
            1 => write!(f, "1 pass of {}", radices[0]),
            passes => write!(f, "{passes} passes of {}", radices.join(", ")),
        }
    }
}
