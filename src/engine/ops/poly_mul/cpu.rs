//! Multiplies by transforms on the engine, a group of rows at a time; short factors coefficient by
//! coefficient.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    fold::add_reduced,
    short::{add_product, is_short},
};
use crate::{
    curve::{FrField, NttPlan},
    engines::{EngineModel, EngineWork, ExecutedBy, JobControl, add_stages, long_rows},
    error::{Error, Result},
    operation::{PolyMulStep, PolyReduction, ProductSizes, ProductTransform},
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostRows, HostStep,
        HostValue, RowPiece, Rows, StepTypes,
    },
    program::{ValueType, VectorShape},
    verify::{CheckedProduct, ProductModulus},
};

/// The factors: rows of the same number.
#[derive(Clone, Copy)]
struct Factors<'a, E> {
    a: &'a [Vec<E>],
    /// `None` for the square of `a`.
    b: Option<&'a [Vec<E>]>,
}

impl<E> Factors<'_, E> {
    fn rows(&self, rows: Range<usize>) -> Self {
        Self { a: &self.a[rows.clone()], b: self.b.map(|b| &b[rows]) }
    }
}

impl AnyFieldStep for PolyMulStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let shape = context.shape()?;
        let [a, b] = rows(field, &inputs)?;
        let sizes = sizes_of_rows(self, shape, a, b)?;
        let factors = Factors { a, b: (!self.is_square()).then_some(b) };
        let mut out = host::zeros(shape, context.control)?;
        let product = Product { field, sizes, context };
        let executor = match is_short(&sizes) && !context.engine.is_oracle() {
            true => product.of_short(factors, &mut out).map(|()| None),
            false => product.by_transforms(factors, &mut out),
        };
        Ok(HostResult { executor: executor?, ..HostResult::of_rows(field, out) })
    }
}

/// What the check of a reduced product knows of the reduction.
fn modulus(sizes: &ProductSizes) -> Option<ProductModulus> {
    match sizes.reduction {
        PolyReduction::None => None,
        PolyReduction::Cyclic(degree) => Some(ProductModulus { degree, is_negacyclic: false }),
        PolyReduction::Negacyclic(degree) => Some(ProductModulus { degree, is_negacyclic: true }),
    }
}

fn rows<'a, F: HostField>(
    field: F,
    inputs: &'a [HostArgument<'_>],
) -> Result<[&'a [Vec<F::Element>]; 2]> {
    let [a, b] = inputs else { return Err(internal("the step needs two inputs")) };
    Ok([a.rows(field)?, b.rows(field)?])
}

/// The sizes of products of rows of these vectors; `shape` is that of the product.
fn sizes_of_rows<E>(
    step: &PolyMulStep,
    shape: VectorShape,
    a: &[Vec<E>],
    b: &[Vec<E>],
) -> Result<ProductSizes> {
    let of = |rows: &[Vec<E>]| shape.with_length(rows.first().map_or(0, Vec::len) as u64);
    let shapes = [of(a), of(b)].map(|shape| shape.map_err(internal));
    let [a, b] = shapes;
    Ok(step.sizes(a?, b?))
}

/// The sizes of a product of vectors of these types; `None` for points.
fn sizes_of_types(step: &PolyMulStep, inputs: &[ValueType]) -> Option<ProductSizes> {
    let [ValueType::Vector(a), ValueType::Vector(b)] = inputs else { return None };
    Some(step.sizes(*a, *b))
}

fn is_right<F: HostField>(
    step: &PolyMulStep,
    field: F,
    inputs: &[HostArgument<'_>],
    product: &HostRows,
    context: &HostContext<'_>,
) -> Result<bool> {
    let [a, b] = rows(field, inputs)?;
    let sizes = sizes_of_rows(step, context.shape()?, a, b)?;
    let modulus = modulus(&sizes);
    let reduce = |row, length| folded_row(field, row, sizes.reduction, length, context.control);
    for ((a, b), product) in a.iter().zip(b).zip(field.rows(product)?) {
        let (short_a, short_b) = (reduce(a, sizes.a)?, reduce(b, sizes.b)?);
        let a = short_a.as_ref().map_or(a, |rows| &rows[0]);
        let b = short_b.as_ref().map_or(b, |rows| &rows[0]);
        let checked = CheckedProduct { a, b, product, modulus };
        if !field.verify_product(&checked, context.control)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl HostStep for PolyMulStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let (Some(sizes), ValueType::Vector(product)) =
            (sizes_of_types(self, types.inputs), types.value)
        else {
            return Vec::new();
        };
        let field = sizes.field;
        let rows = product.rows();
        let of_rows = |products: u64| types.products(products.saturating_mul(rows.into()));
        match sizes.transform().filter(|_| !is_short(&sizes)) {
            Some(ProductTransform { lg_n, .. }) => {
                let transforms = if self.is_square() { 2 } else { 3 };
                let mut all = vec![EngineWork::Ntt { field, lg_n, rows }; transforms];
                all.push(of_rows(1 << lg_n));
                all
            }
            None => vec![of_rows(sizes.a.saturating_mul(sizes.b))],
        }
    }

    /// Evaluations, also of the quotient if the product is reduced.
    fn check_work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let (Some(sizes), ValueType::Vector(product)) =
            (sizes_of_types(self, types.inputs), types.value)
        else {
            return Vec::new();
        };
        let evaluations = if modulus(&sizes).is_some() { 3 } else { 1 };
        let coefficients = evaluations * (sizes.a + sizes.b + sizes.reduced);
        vec![types.evaluations(coefficients.saturating_mul(product.rows().into()))]
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let HostValue::Vector(product) = value else { return Ok(Some(false)) };
        let is_right = match product {
            HostRows::Fr(_) => is_right(self, FrField, inputs, product, context),
            HostRows::Prime31(field, _) => is_right(self, *field, inputs, product, context),
            HostRows::Gf2(_) | HostRows::Integers(_) => {
                return Err(internal("no products of polynomials over these vectors"));
            }
        };
        is_right.map(Some)
    }

    fn scratch_bytes(
        &self,
        inputs: &[ValueType],
        engine: &dyn EngineModel,
        is_checked: bool,
    ) -> u64 {
        let [ValueType::Vector(a), ValueType::Vector(b)] = inputs else { return 0 };
        let sizes = self.sizes(*a, *b);
        // Factors that are longer than the reduced ones are copied.
        let copied = |shape: &VectorShape, length| if shape.length() > length { length } else { 0 };
        let copied = copied(a, sizes.a) + copied(b, sizes.b);
        let whole = if modulus(&sizes).is_some() { sizes.full } else { 0 };
        let of_short = (copied + whole).saturating_mul(a.rows().into());
        let element_bytes = sizes.field.element_bytes();
        let bytes = match sizes.transform() {
            Some(transform) if !is_short(&sizes) || engine.is_oracle() => {
                let factors = if self.is_square() { 1 } else { 2 };
                let group = group_rows(transform, engine).min(a.rows() as usize) as u64;
                let elements = (factors * group) << transform.lg_n;
                let own = engine.ntt_scratch_bytes(sizes.field, transform.lg_n);
                elements.saturating_mul(element_bytes).saturating_add(own)
            }
            _ => of_short.saturating_mul(element_bytes),
        };
        let of_check = if is_checked { copied * element_bytes } else { 0 };
        bytes.max(of_check)
    }

    fn device_scratch_bytes(&self, inputs: &[ValueType]) -> u64 {
        let Some(sizes) = sizes_of_types(self, inputs) else { return 0 };
        let Some(transform) =
            super::gpu::device_transform(&sizes, true).or_else(|| sizes.transform())
        else {
            return 0;
        };
        let rows = inputs.first().map_or(0, |input| host::rows(*input));
        // Both factors, and the output of a transform that is not in place.
        ((3 * sizes.field.element_bytes()) << transform.lg_n).saturating_mul(rows)
    }
}

/// A product to compute.
struct Product<'a, F> {
    field: F,
    sizes: ProductSizes,
    context: &'a HostContext<'a>,
}

impl<F: HostField> Product<'_, F> {
    /// Adds the products to `out`.
    fn of_short(
        &self,
        factors: Factors<'_, F::Element>,
        out: &mut [Vec<F::Element>],
    ) -> Result<()> {
        let &Self { field, sizes, context: &HostContext { control, .. } } = self;
        let reduction = sizes.reduction;
        let rows = factors.a.par_iter().zip(factors.b.unwrap_or(factors.a)).zip(out);
        rows.try_for_each(|((a, b), out)| {
            let short_a = folded_row(field, a, reduction, sizes.a, control)?;
            let short_b = folded_row(field, b, reduction, sizes.b, control)?;
            let a = short_a.as_ref().map_or(a, |rows| &rows[0]);
            let b = short_b.as_ref().map_or(b, |rows| &rows[0]);
            if modulus(&sizes).is_none() {
                return add_product(field, a, b, out, control);
            }
            let mut full = zeros::<F>(1, sizes.full, control)?;
            add_product(field, a, b, &mut full[0], control)?;
            add_reduced(field, &full[0], reduction, out, control)
        })
    }

    /// Adds the products to `out`.
    fn by_transforms(
        &self,
        factors: Factors<'_, F::Element>,
        out: &mut [Vec<F::Element>],
    ) -> Result<Option<ExecutedBy>> {
        let &Self { field, sizes, context } = self;
        let transform = sizes.transform().ok_or_else(|| internal("there is no such transform"))?;
        let group = group_rows(transform, context.engine);
        let mut executor = None;
        for (number, out) in out.chunks_mut(group).enumerate() {
            let first = number * group;
            let factors = factors.rows(first..first + out.len());
            let products = self.by_transform(factors, transform, &mut executor)?;
            for (product, out) in products.iter().zip(out) {
                let used = &product[..product.len().min(sizes.full as usize)];
                add_reduced(field, used, sizes.reduction, out, context.control)?;
            }
        }
        Ok(executor)
    }

    /// The products of a group of rows, padded to the transform's size.
    fn by_transform(
        &self,
        factors: Factors<'_, F::Element>,
        transform: ProductTransform,
        executor: &mut Option<ExecutedBy>,
    ) -> Result<Rows<F::Element>> {
        let &Self { field, context: &HostContext { engine, control, .. }, .. } = self;
        let [forward, inverse] = plans(field, transform)?;
        let mut run = |rows: &mut [Vec<F::Element>], plan: &NttPlan<F::Element>| -> Result<()> {
            let done = field.transform(engine, plan, rows, control)?;
            match executor {
                Some(known) => add_stages(&mut known.stages, &done.stages),
                None => *executor = Some(done),
            }
            Ok(())
        };
        let mut values = self.padded(factors.a, transform)?;
        run(&mut values, &forward)?;
        let mut others = factors.b.map(|b| self.padded(b, transform)).transpose()?;
        if let Some(others) = &mut others {
            run(others, &forward)?;
        }
        host::for_each_piece(
            &mut values,
            control,
            |RowPiece { row, first }, values| match &others {
                Some(others) => {
                    let pairs = values.iter_mut().zip(&others[row][first..]);
                    pairs.for_each(|(a, b)| *a = field.multiply(*a, *b));
                }
                None => values.iter_mut().for_each(|a| *a = field.multiply(*a, *a)),
            },
        )?;
        drop(others);
        run(&mut values, &inverse)?;
        Ok(values)
    }

    /// The rows, reduced and padded with zeros to the transform's size.
    fn padded(
        &self,
        rows: &[Vec<F::Element>],
        transform: ProductTransform,
    ) -> Result<Rows<F::Element>> {
        let control = self.context.control;
        let mut out = zeros::<F>(rows.len(), 1 << transform.lg_n, control)?;
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            add_reduced(self.field, row, self.sizes.reduction, out, control)?;
        }
        Ok(out)
    }
}

/// The reduced row, in a vector of one row; `None` if it is not longer.
fn folded_row<F: HostField>(
    field: F,
    row: &[F::Element],
    reduction: PolyReduction,
    length: u64,
    control: &JobControl,
) -> Result<Option<Rows<F::Element>>> {
    if row.len() as u64 <= length {
        return Ok(None);
    }
    let mut out = zeros::<F>(1, length, control)?;
    add_reduced(field, row, reduction, &mut out[0], control)?;
    Ok(Some(out))
}

fn zeros<F: HostField>(rows: usize, length: u64, control: &JobControl) -> Result<Rows<F::Element>> {
    let length = length as usize;
    host::rows_of(rows, length, |_, out| long_rows::pad(out, length, control))
}

/// The transforms of factors and of the product.
fn plans<F: HostField>(field: F, transform: ProductTransform) -> Result<[NttPlan<F::Element>; 2]> {
    let ProductTransform { lg_n, lg_coset } = transform;
    let root = |lg_order| field.root_of_unity(lg_order);
    let coset = lg_coset.map(|lg_order| root(lg_order).ok_or_else(|| internal("no such root")));
    let coset = coset.transpose()?;
    let reversed = F::HAS_REVERSED_VALUES;
    let plan =
        NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: false };
    let inverse = NttPlan { inverse: true, input_reversed: reversed, ..plan };
    Ok([NttPlan { output_reversed: reversed, ..plan }, inverse])
}

/// Rows of a transform that are computed at once.
fn group_rows(transform: ProductTransform, engine: &(impl EngineModel + ?Sized)) -> usize {
    engine.ntt_group_rows(transform.lg_n).max(1)
}

fn internal(problem: impl ToString) -> Error {
    Error::Internal(problem.to_string())
}
