//! Plans of transforms.

use std::{
    fmt::{self, Display, Formatter},
    sync::Arc,
};

use super::{
    cuts::Cut31,
    elements::{PrimeParameters, prime_parameters},
    kernels::{Ntt31Kernels, mismatch},
    scaling::Scaling31,
    shapes::{LG_SMALL_MAX, LG_SMALL_TILE, PassShape, columns_shape, rows_shape},
    tables::{ColumnPowers, DigitTwiddles31, PassFactors, TwiddleTables31},
};
use crate::{
    curve::NttPlan,
    device::{DeviceFault, DeviceLease, Gpu, GpuUnavailable},
    error::{FieldProblem, InputError},
    field::{Arithmetic, Element31, Field31, VectorElements},
};

/// The kernels and twiddle tables of a device, for all primes.
pub struct Ntt31Device {
    pub(super) kernels: Ntt31Kernels,
    pub(super) tables: TwiddleTables31,
    /// Shared memory that a block may have.
    pub(super) shared_bytes_max: u32,
}

/// The passes of a transform and their tables. Any number of threads may run it at a time.
pub struct Ntt31PassPlan {
    pub(super) transform: NttPlan<Element31>,
    pub(super) prime: PrimeParameters,
    /// In the order of DIF: columns, then rows.
    pub(super) passes: Vec<PlannedPass31>,
}

pub(super) struct PlannedPass31 {
    pub shape: PassShape,
    pub twiddles: Arc<DeviceLease>,
    /// Multiply words in natural order: of the outermost pass.
    pub natural_factors: Option<Arc<DeviceLease>>,
    /// Multiply words in bit-reversed order: of a pass over rows.
    pub reversed_factors: Option<Arc<DeviceLease>>,
    pub kind: PassKind31,
}

pub(super) enum PassKind31 {
    Small,
    Columns { lg_block: u32, starts: Arc<DeviceLease>, steps: Arc<DeviceLease> },
    Rows,
}

impl Ntt31Device {
    /// Loads the kernels. The table cache takes up to `table_bytes_max` of the device's memory;
    /// tables in use come on top.
    pub fn load(gpu: &Gpu, table_bytes_max: u64) -> Result<Self, GpuUnavailable> {
        let tables = TwiddleTables31::new(gpu, table_bytes_max)?;
        let shared_bytes_max = gpu.identity().limits.block_shared_bytes;
        Ok(Self { kernels: Ntt31Kernels::load(gpu)?, tables, shared_bytes_max })
    }

    /// A plan that is fast for `rows` rows; it transforms any number.
    ///
    /// Errors: `Invalid` if `lg_n` is above the field's two-adicity or the coset's generator is
    /// zero; `OutOfMemory`; driver errors.
    pub fn plan(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        rows: u32,
    ) -> Result<Ntt31PassPlan, DeviceFault> {
        let lg_n = transform.lg_n;
        let max = field.id().two_adicity();
        let cut = Cut31::of(lg_n, rows, self.shared_bytes_max).filter(|_| lg_n <= max);
        let too_large = InputError::field("lg_n", FieldProblem::TooLarge { max: max.into() });
        self.plan_cut(field, transform, cut.ok_or(DeviceFault::Input(too_large))?)
    }

    /// A plan with the caller's passes, for benchmarks: [`Ntt31Device::plan`] chooses the best.
    ///
    /// Shape: the logarithms of the radices add up to `lg_n`.
    /// Errors: like [`Ntt31Device::plan`]; `KernelMismatch` if there are no kernels for these
    /// passes.
    pub fn plan_cut(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        cut: Cut31<'_>,
    ) -> Result<Ntt31PassPlan, DeviceFault> {
        let scaling =
            Scaling31::of(field, transform, is_dit(transform)).map_err(DeviceFault::Input)?;
        self.plan_scaled(field, transform, cut, scaling)
    }

    /// Like [`Ntt31Device::plan_cut`], with the caller's scaling.
    pub(super) fn plan_scaled(
        &self,
        field: Field31,
        transform: &NttPlan<Element31>,
        cut: Cut31<'_>,
        scaling: Scaling31,
    ) -> Result<Ntt31PassPlan, DeviceFault> {
        let lg_n = transform.lg_n;
        if lg_n > field.id().two_adicity() || !cut.fits(lg_n) {
            return Err(mismatch(format!("{cut:?} does not fit 2^{lg_n} elements")));
        }
        let Cut31 { lg_radices: radices, is_wide } = cut;
        let inverse = transform.inverse;
        let planner = Planner31 { tables: &self.tables, field, lg_n, inverse, scaling };
        let mut lg_block = lg_n;
        let mut passes = Vec::new();
        for (number, &lg_r) in radices.iter().enumerate() {
            passes.push(match number + 1 == radices.len() {
                false => planner.columns(lg_block, columns_shape(lg_r, is_wide))?,
                true if lg_n <= LG_SMALL_MAX => planner.small()?,
                true => planner.rows(rows_shape(lg_r, is_wide))?,
            });
            lg_block -= lg_r;
        }
        let prime = prime_parameters(field, inverse);
        Ok(Ntt31PassPlan { transform: *transform, prime, passes })
    }

    /// Evicts all tables, so that later plans build them again, in case one is corrupt.
    pub fn evict_tables(&self) {
        self.tables.evict_all();
    }
}

/// Whether passes lead from bit-reversed order to natural. All others lead from natural order to
/// bit-reversed, before or after a reversal if the transform keeps its order.
fn is_dit(transform: &NttPlan<Element31>) -> bool {
    transform.input_reversed && !transform.output_reversed
}

struct Planner31<'a> {
    tables: &'a TwiddleTables31,
    field: Field31,
    lg_n: u32,
    inverse: bool,
    scaling: Scaling31,
}

impl Planner31<'_> {
    fn columns(
        &self,
        lg_block: u32,
        shape: Option<PassShape>,
    ) -> Result<PlannedPass31, DeviceFault> {
        let &Self { field, lg_n, inverse, scaling, .. } = self;
        let shape = shape.ok_or_else(no_kernel)?;
        let is_outermost = lg_block == lg_n;
        let one = field.one();
        let (column, scale) =
            if is_outermost { (scaling.natural, scaling.scale) } else { (one, one) };
        // A frequency of the pass counts this often in the element's number.
        let row = field.power(scaling.reversed, 1 << (lg_n - lg_block));
        let powers = ColumnPowers { field, lg_block, shape, inverse, column, row, scale };
        let base = field.power(scaling.natural, 1 << (lg_block - shape.lg_r));
        let is_scaled = is_outermost && (scaling.natural != one || scaling.takes_any_words);
        let natural_factors = is_scaled.then(|| self.factors(shape.lg_r, base, one, false));
        let starts = self.tables.starts(powers.clone())?;
        let steps = self.tables.steps(powers)?;
        Ok(PlannedPass31 {
            shape,
            twiddles: self.tables.digits(DigitTwiddles31 { field, shape, inverse })?,
            natural_factors: natural_factors.transpose()?,
            reversed_factors: None,
            kind: PassKind31::Columns { lg_block, starts, steps },
        })
    }

    fn rows(&self, shape: Option<PassShape>) -> Result<PlannedPass31, DeviceFault> {
        let &Self { field, inverse, .. } = self;
        let shape = shape.ok_or_else(no_kernel)?;
        let twiddles = self.tables.digits(DigitTwiddles31 { field, shape, inverse })?;
        self.of_rows(shape, twiddles, PassKind31::Rows)
    }

    fn small(&self) -> Result<PlannedPass31, DeviceFault> {
        let &Self { field, lg_n, inverse, .. } = self;
        let shape =
            PassShape { lg_r: lg_n, lg_tile: LG_SMALL_TILE, lg_words: 2, has_columns: false };
        let twiddles = self.tables.small(DigitTwiddles31 { field, shape, inverse })?;
        self.of_rows(shape, twiddles, PassKind31::Small)
    }

    fn of_rows(
        &self,
        shape: PassShape,
        twiddles: Arc<DeviceLease>,
        kind: PassKind31,
    ) -> Result<PlannedPass31, DeviceFault> {
        let &Self { field, lg_n, scaling, .. } = self;
        let Scaling31 { natural, reversed, scale, takes_any_words } = scaling;
        let lg_r = shape.lg_r;
        let one = field.one();
        let is_only = lg_r == lg_n;
        // The outermost pass scales, on the side that is multiplied anyway.
        let scale = if is_only { scale } else { one };
        let (natural_scale, reversed_scale) =
            if reversed == one { (scale, one) } else { (one, scale) };
        let is_natural = is_only && (natural != one || natural_scale != one || takes_any_words);
        let natural_factors = is_natural.then(|| self.factors(lg_r, natural, natural_scale, false));
        let base = field.power(reversed, 1 << (lg_n - lg_r));
        let reversed_factors =
            (reversed != one).then(|| self.factors(lg_r, base, reversed_scale, true));
        Ok(PlannedPass31 {
            shape,
            twiddles,
            natural_factors: natural_factors.transpose()?,
            reversed_factors: reversed_factors.transpose()?,
            kind,
        })
    }

    fn factors(
        &self,
        lg_r: u32,
        base: Element31,
        scale: Element31,
        is_reversed: bool,
    ) -> Result<Arc<DeviceLease>, DeviceFault> {
        self.tables.factors(PassFactors { field: self.field, lg_r, base, scale, is_reversed })
    }
}

fn no_kernel() -> DeviceFault {
    mismatch("no kernel for a pass of a transform over a 31-bit prime".into())
}

impl Ntt31PassPlan {
    pub fn transform(&self) -> &NttPlan<Element31> {
        &self.transform
    }

    /// Whether the passes lead from bit-reversed order to natural.
    pub(super) fn is_dit(&self) -> bool {
        is_dit(&self.transform)
    }

    /// Whether the plan cannot run in place: it keeps the order, so it ends or begins with a
    /// reversal.
    pub fn needs_second_buffer(&self) -> bool {
        let NttPlan { input_reversed, output_reversed, .. } = self.transform;
        !self.passes.is_empty() && input_reversed == output_reversed
    }
}

impl Display for Ntt31PassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut radices: Vec<_> =
            self.passes.iter().map(|pass| format!("2^{}", pass.shape.lg_r)).collect();
        if self.is_dit() {
            radices.reverse();
        }
        match radices.len() {
            0 => write!(f, "no passes"),
            1 => write!(f, "1 pass of {}", radices[0]),
            passes => write!(f, "{passes} passes of {}", radices.join(", ")),
        }
    }
}
