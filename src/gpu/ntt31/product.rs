//! Cyclic products of polynomials: the pass over rows transforms, multiplies and transforms back.

use super::{
    cuts::Cut31,
    kernels::{PRODUCT_KIND, WordVector, kernel_name, mismatch},
    plan::{Ntt31Device, Ntt31PassPlan, PassKind31, PlannedPass31},
    run::{PassData, ShortRows, in_place, rows_grid},
    scaling::Scaling31,
};
use crate::{
    curve::NttPlan,
    device::{DeviceFault, Stream},
    field::{Arithmetic, Element31, Field31},
};

/// The transforms of a product modulo `X^n - shift^n`, where `shift` generates their coset.
pub struct Product31Plan {
    /// From natural order to bit-reversed.
    forward: Ntt31PassPlan,
    /// Back.
    inverse: Ntt31PassPlan,
}

/// The rows of a product. None overlaps another one, but `out` may be the memory for the transform
/// of `a`, if it has n words a row.
#[derive(Clone, Copy)]
pub struct Product31Rows<'a> {
    pub a: ShortRows<'a>,
    /// `None` to square `a`.
    pub b: Option<ShortRows<'a>>,
    /// Memory for the transform of each factor: n words for each row.
    pub transforms: [Option<WordVector<'a>>; 2],
    pub out: ShortRows<'a>,
    pub rows: u32,
}

impl Ntt31Device {
    /// A plan for `rows` products of up to 2^`lg_n` coefficients each, where `lg_n` is at least 8.
    /// `coset` is the coset's generator.
    ///
    /// Errors: like [`Ntt31Device::plan`]; `KernelMismatch` for smaller products.
    pub fn plan_product(
        &self,
        field: Field31,
        lg_n: u32,
        coset: Option<Element31>,
        rows: u32,
    ) -> Result<Product31Plan, DeviceFault> {
        let [forward, inverse] = transforms(lg_n, coset);
        let plan = |transform| self.plan(field, &transform, rows);
        Product31Plan::new(plan(forward)?, plan(inverse)?)
    }

    /// A plan for products modulo `X^n - 1`, or `X^n + 1`, of words of any size that are not in
    /// Montgomery form: the coefficients are canonical residues modulo the prime.
    ///
    /// Errors: like [`Ntt31Device::plan_product`].
    pub fn plan_residues(
        &self,
        field: Field31,
        lg_n: u32,
        is_negacyclic: bool,
        rows: u32,
    ) -> Result<Product31Plan, DeviceFault> {
        let no_passes = || mismatch(format!("no transform of 2^{lg_n} words"));
        let cut = Cut31::of(lg_n, rows, self.shared_bytes_max).ok_or_else(no_passes)?;
        let root = is_negacyclic.then(|| field.root_of_unity(lg_n + 1).ok_or_else(no_passes));
        let [forward, inverse] = transforms(lg_n, root.transpose()?);
        let plan = |transform: NttPlan<Element31>| {
            let mut scaling =
                Scaling31::of(field, &transform, transform.inverse).map_err(DeviceFault::Input)?;
            if transform.inverse {
                // The product of two words is divided by 2^32.
                let factor = field.element(((1_u64 << 32) % u64::from(field.modulus())) as u32);
                scaling.scale = field.multiply(scaling.scale, factor);
            } else {
                scaling.takes_any_words = true;
            }
            self.plan_scaled(field, &transform, cut, scaling)
        };
        Product31Plan::new(plan(forward)?, plan(inverse)?)
    }

    /// The names of the kernels that multiply rows, of those that suit the device.
    pub fn product_kernels(&self) -> impl Iterator<Item = String> {
        self.kernels.row_shapes().map(|shape| kernel_name(PRODUCT_KIND, shape))
    }

    /// Multiplies rows on `stream`. The contents of `transforms` are then unspecified.
    ///
    /// Shape: each of `a`, `b` and `out` has `rows` rows, of at most n words; the coefficients of
    /// `out` after its length are not computed. `transforms` are those that the plan needs.
    /// Errors: `KernelMismatch` if the shape is wrong; driver errors.
    pub fn multiply(
        &self,
        stream: &Stream,
        plan: &Product31Plan,
        data: Product31Rows<'_>,
    ) -> Result<(), DeviceFault> {
        let Product31Rows { a, b, transforms: [of_a, of_b], out, rows } = data;
        let lg_n = plan.lg_n();
        let is_short = |rows_of: ShortRows<'_>| {
            let words = u64::from(rows) * u64::from(rows_of.length);
            rows_of.words.len() as u64 == words && u64::from(rows_of.length) <= 1 << lg_n
        };
        let is_whole = |words: WordVector<'_>| words.len() as u64 == u64::from(rows) << lg_n;
        let fits = is_short(a) && b.is_none_or(is_short) && is_short(out);
        let have = [of_a, of_b].map(|words| words.is_some());
        let wholes = [of_a, of_b].into_iter().flatten();
        if !fits || !wholes.into_iter().all(is_whole) || have != plan.needs(b.is_none()) {
            return Err(mismatch("the product does not match its memory".into()));
        }
        let other = match b.zip(of_b) {
            Some((b, words)) => {
                self.transform_passes(stream, plan, b, words, plan.forward.passes.len())?;
                Some(words)
            }
            None => None,
        };
        let Some(words) = of_a else {
            // The only pass is over rows.
            return self.multiply_rows(stream, plan, a, other, out, rows);
        };
        let columns = plan.forward.passes.len() - 1;
        self.transform_passes(stream, plan, a, words, columns)?;
        let pass = &plan.forward.passes[columns];
        let PassData { natural, .. } = in_place(pass, words);
        let count = words.len() as u64 >> pass.shape.lg_r;
        let count = u32::try_from(count).map_err(|_| mismatch("there are too many rows".into()))?;
        self.multiply_rows(stream, plan, natural, other, natural, count)?;
        for (number, pass) in plan.inverse.passes[..columns].iter().enumerate().rev() {
            let whole = in_place(pass, words);
            let data = if number == 0 { PassData { natural: out, ..whole } } else { whole };
            self.run_pass(stream, &plan.inverse, pass, data)?;
        }
        Ok(())
    }

    /// The first `count` passes from `natural` to `words`.
    fn transform_passes(
        &self,
        stream: &Stream,
        plan: &Product31Plan,
        natural: ShortRows<'_>,
        words: WordVector<'_>,
        count: usize,
    ) -> Result<(), DeviceFault> {
        for (number, pass) in plan.forward.passes[..count].iter().enumerate() {
            let whole = in_place(pass, words);
            let data = if number == 0 { PassData { natural, ..whole } } else { whole };
            self.run_pass(stream, &plan.forward, pass, data)?;
        }
        Ok(())
    }

    fn multiply_rows(
        &self,
        stream: &Stream,
        plan: &Product31Plan,
        from: ShortRows<'_>,
        other: Option<WordVector<'_>>,
        to: ShortRows<'_>,
        rows: u32,
    ) -> Result<(), DeviceFault> {
        let missing = || mismatch("a product has no pass over rows".into());
        let pass = plan.forward.passes.last().ok_or_else(missing)?;
        let back = plan.inverse.passes.last().ok_or_else(missing)?;
        let (points, _) = pass.factors();
        let (points_back, _) = back.factors();
        let grid = rows_grid(pass.shape, rows)?;
        let [from_layout, to_layout] = [from, to].map(|rows| [u64::from(rows.length); 2]);
        let (twiddles, twiddles_back) = (pass.twiddles.all(), back.twiddles.all());
        let primes = [plan.forward.prime, plan.inverse.prime];
        let count = rows.into();
        let arguments = (
            from.words,
            from_layout,
            other,
            to.words,
            to_layout,
            twiddles,
            points,
            twiddles_back,
            points_back,
            count,
            primes[0],
            primes[1],
        );
        self.kernels.rows(pass.shape)?.product.launch(stream, grid, arguments)
    }
}

/// The transforms of a product: from natural order to bit-reversed, and back.
fn transforms(lg_n: u32, coset: Option<Element31>) -> [NttPlan<Element31>; 2] {
    let forward =
        NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: true };
    let inverse =
        NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..forward };
    [forward, inverse]
}

impl Product31Plan {
    fn new(forward: Ntt31PassPlan, inverse: Ntt31PassPlan) -> Result<Self, DeviceFault> {
        let has_rows = |pass: &PlannedPass31| matches!(pass.kind, PassKind31::Rows);
        if !forward.passes.last().is_some_and(has_rows) {
            let lg_n = forward.transform.lg_n;
            return Err(mismatch(format!("no pass multiplies rows of 2^{lg_n} words")));
        }
        Ok(Self { forward, inverse })
    }

    fn lg_n(&self) -> u32 {
        self.forward.transform.lg_n
    }

    /// The name of the kernel that multiplies rows.
    pub fn kernel(&self) -> Option<String> {
        self.forward.passes.last().map(|pass| kernel_name(PRODUCT_KIND, pass.shape))
    }

    /// Which factors need memory for their transforms; `is_square` if there is one factor.
    pub fn needs(&self, is_square: bool) -> [bool; 2] {
        [self.forward.passes.len() > 1, !is_square]
    }
}

impl std::fmt::Display for Product31Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "products by {}", self.forward)
    }
}
