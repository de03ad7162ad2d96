//! Checks an NTT over a field of a prime below 2^31, by evaluation at a secret random point of an
//! extension of degree 8: the field itself is too small.

use rayon::prelude::*;

use crate::{
    curve::{NttPlan, reverse_bits},
    engines::JobControl,
    error::Result,
    field::{Arithmetic, Element31, Extension, ExtensionField, Field31},
};

/// log2 of the elements of a task, whose powers of the point fit in the L1 cache.
const LG_TASK: u32 = 9;

/// True if `output` is the transform of `input` that `plan` specifies. Any wrong output passes with
/// probability below 2^-160: a polynomial of degree below n has less than n roots among the p^8
/// elements of the extension. Linear in the row's length; runs in parallel on the current rayon
/// pool.
///
/// Shape: both rows have 2^lg_n elements, in the plan's orders; false otherwise.
/// Errors: those of `control`.
pub fn verify_ntt31(
    field: Field31,
    plan: &NttPlan<Element31>,
    input: &[Element31],
    output: &[Element31],
    control: &JobControl,
) -> Result<bool> {
    let Some(root) = field.root_of_unity(plan.lg_n) else { return Ok(false) };
    let size = 1_usize << plan.lg_n;
    if input.len() != size || output.len() != size {
        return Ok(false);
    }
    let extension = ExtensionField::new(field);
    let point = extension.random_point();
    // The values are at `shift * root^j`, so coefficients are evaluated at `shift * point`.
    let shifted_point = extension.scale(&point, plan.coset.unwrap_or(field.one()));
    let input_side = Row31 { row: input, lg_n: plan.lg_n, reversed: plan.input_reversed };
    let output_side = Row31 { row: output, lg_n: plan.lg_n, reversed: plan.output_reversed };
    let (coefficients, values) =
        if plan.inverse { (output_side, input_side) } else { (input_side, output_side) };
    let value = coefficients.evaluate(extension, &shifted_point, control)?;
    Ok(value == values.interpolate(extension, root, &point, control)?)
}

struct Row31<'a> {
    row: &'a [Element31],
    lg_n: u32,
    reversed: bool,
}

impl Row31<'_> {
    fn lg_task(&self) -> u32 {
        self.lg_n.min(LG_TASK)
    }

    /// The index of the first element of a task.
    fn first_index(&self, task: usize) -> u64 {
        let index = match self.reversed {
            true => reverse_bits(task, self.lg_n - self.lg_task()),
            false => task << self.lg_task(),
        };
        index as u64
    }

    /// How many indices element `position` of a task is after the task's first one, in steps of
    /// [`Self::step`].
    fn steps(&self, position: usize) -> usize {
        if self.reversed { reverse_bits(position, self.lg_task()) } else { position }
    }

    fn step(&self) -> u64 {
        if self.reversed { 1 << (self.lg_n - self.lg_task()) } else { 1 }
    }

    /// The sum of `task(elements, index of the first one)` over all tasks.
    fn sum_tasks(
        &self,
        field: ExtensionField,
        control: &JobControl,
        sum: impl Fn(&[Element31], u64) -> Extension + Sync,
    ) -> Result<Extension> {
        let tasks = self.row.par_chunks(1 << self.lg_task()).enumerate().map(|(task, elements)| {
            control.check()?;
            Ok(sum(elements, self.first_index(task)))
        });
        tasks.try_reduce(Extension::default, |a, b| Ok(field.add(&a, &b)))
    }

    /// The value at `point` of the polynomial whose coefficients are the row.
    fn evaluate(
        &self,
        field: ExtensionField,
        point: &Extension,
        control: &JobControl,
    ) -> Result<Extension> {
        let step = field.power(point, self.step());
        let mut power = field.one();
        let mut powers = vec![Extension::default(); 1 << self.lg_task()];
        for position in 0..powers.len() {
            powers[self.steps(position)] = power;
            power = field.multiply(&power, &step);
        }
        self.sum_tasks(field, control, |elements, first| {
            let mut sum = Extension::default();
            for (element, power) in elements.iter().zip(&powers) {
                sum = field.add(&sum, &field.scale(power, *element));
            }
            field.multiply(&sum, &field.power(point, first))
        })
    }

    /// The value at `point` of the polynomial with value `y_j` at `root^j`:
    /// `(point^n - 1) / n * sum of y_j * c_j / (point - c_j)` with `c_j = root^j`.
    ///
    /// With m the characteristic polynomial of the point, `1 / (point - c)` is `-q(point) / m(c)`
    /// for the quotient `q = (m - m(c)) / (Y - c)`, whose coefficients Horner's rule computes in
    /// the field itself.
    fn interpolate(
        &self,
        field: ExtensionField,
        root: Element31,
        point: &Extension,
        control: &JobControl,
    ) -> Result<Extension> {
        let base = field.base;
        let polynomial = field.characteristic_polynomial(point);
        let step = base.power(root, self.step());
        let weighted = self.sum_tasks(field, control, |elements, first| {
            let mut places = vec![Element31::default(); elements.len()];
            let mut place = base.power(root, first);
            for steps in 0..places.len() {
                places[self.steps(steps)] = place;
                place = base.multiply(place, step);
            }
            sum_of_quotients(base, &polynomial, elements, &places)
        })?;
        let weights = field.interpolation_weights(point, self.lg_n);
        let terms = weighted.iter().zip(&weights);
        let terms = terms.map(|(coefficient, weight)| field.scale(weight, *coefficient));
        Ok(terms.fold(Extension::default(), |sum, term| field.add(&sum, &term)))
    }
}

/// The coefficients of the sum of `elements[j] * places[j] / m(places[j]) * q_j`, where q_j is the
/// quotient of `m - m(places[j])` by `Y - places[j]`.
fn sum_of_quotients(
    field: Field31,
    polynomial: &Extension,
    elements: &[Element31],
    places: &[Element31],
) -> Extension {
    let quotient = |place: Element31| {
        let mut quotient = Extension::default();
        let mut value = field.one();
        for (out, coefficient) in quotient.iter_mut().zip(polynomial).rev() {
            *out = value;
            value = field.add(field.multiply(value, place), *coefficient);
        }
        (quotient, value)
    };
    // One inversion for all.
    let mut product = field.one();
    let before: Vec<_> = places
        .iter()
        .map(|place| {
            let (_, value) = quotient(*place);
            let before = product;
            product = field.multiply(product, value);
            before
        })
        .collect();
    let mut inverse = field.inverse(product).expect("the point is not in the field");
    let mut sum = Extension::default();
    for ((element, place), before) in elements.iter().zip(places).zip(before).rev() {
        let (quotient, value) = quotient(*place);
        let scale =
            field.multiply(field.multiply(*element, *place), field.multiply(inverse, before));
        inverse = field.multiply(inverse, value);
        for (sum, coefficient) in sum.iter_mut().zip(quotient) {
            *sum = field.add(*sum, field.multiply(coefficient, scale));
        }
    }
    sum
}
