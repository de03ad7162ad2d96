//! NTTs in every order, and their checks at a secret point.

use ark_ff::{FftField, Field, PrimeField, batch_inversion};

use super::{
    super::ntt::Transformer,
    Failure,
    sizes::{NttBatch, transforms},
};
use crate::{
    curve::{Fr, scalars::ScalarEncoding},
    engine::{Control, Encoded, NttPlan, Rows, rows::InPlace},
    error::{Error, Limit},
    ntt::Transform,
};

/// A polynomial's coefficients and values, which the host knows in linear time: with coefficients
/// 1, a, a^2 ... the value at x is `(1 - (a x)^n) / (1 - a x)`.
struct Polynomial {
    coefficients: Vec<Fr>,
    /// At the generator of a coset times the powers of a root.
    values: Vec<Fr>,
}

impl Polynomial {
    /// `row` makes rows different.
    fn new(lg_n: u32, coset: Option<Fr>, row: usize) -> Result<Self, Error> {
        let n = 1_u64 << lg_n;
        let no_root = || Error::Internal("no root of unity of that order".to_owned());
        let root = Fr::get_root_of_unity(n).ok_or_else(no_root)?;
        let a = Fr::GENERATOR.pow([0xca95_7a11 + row as u64]);
        let powers = |first, base: Fr| -> Vec<Fr> {
            std::iter::successors(Some(first), |last| Some(*last * base)).take(n as usize).collect()
        };
        let ax = a * coset.unwrap_or(Fr::ONE);
        let mut values = powers(ax, root);
        values.iter_mut().for_each(|ax| *ax = Fr::ONE - *ax);
        batch_inversion(&mut values);
        // Roots do not change the nth power.
        let numerator = Fr::ONE - ax.pow([n]);
        values.iter_mut().for_each(|value| *value *= numerator);
        Ok(Self { coefficients: powers(Fr::ONE, a), values })
    }

    /// What a transform takes and gives.
    fn ends(&self, transform: &Transform) -> (Vec<Fr>, Vec<Fr>) {
        let (coefficients, values) = (self.coefficients.clone(), self.values.clone());
        let (mut input, mut output) =
            if transform.inverse { (values, coefficients) } else { (coefficients, values) };
        for (row, reversed) in
            [(&mut input, transform.input_reversed), (&mut output, transform.output_reversed)]
        {
            if reversed {
                reverse(row, transform.lg_n);
            }
        }
        (input, output)
    }
}

fn reverse(row: &mut [Fr], lg_n: u32) {
    for i in 0..row.len() {
        let j = i.reverse_bits() >> (usize::BITS - lg_n);
        if i < j {
            row.swap(i, j);
        }
    }
}

/// Puts the integers that elements are in the place of their Montgomery form.
fn to_integers(row: &mut [Fr]) {
    row.iter_mut().for_each(|value| *value = Fr::new_unchecked(value.into_bigint()));
}

fn order(reversed: bool) -> &'static str {
    if reversed { "bit-reversed" } else { "natural" }
}

/// All transforms of a batch.
pub fn test(transformer: &Transformer, batch: &NttBatch) -> Result<(), Failure> {
    let mut made: Vec<(Option<Fr>, Vec<Polynomial>)> = Vec::new();
    for transform in transforms(batch.lg_n) {
        let Transform { lg_n, inverse, coset, input_reversed, output_reversed } = transform;
        let what = || {
            let kind = if inverse { "an inverse NTT" } else { "an NTT" };
            let on = if coset.is_some() { " on a coset" } else { "" };
            let (from, to) = (order(input_reversed), order(output_reversed));
            let full = if batch.planned_full { ", planned as a large batch" } else { "" };
            format!("{kind} of {} rows of 2^{lg_n}{on}, {from} to {to}{full}", batch.rows)
        };
        let failed = |error| Failure::Job(what(), error);
        let known = match made.iter().position(|(own, _)| *own == coset) {
            Some(known) => known,
            None => {
                let row = |row| Polynomial::new(lg_n, coset, row);
                let rows = (0..batch.rows).map(row).collect::<Result<_, _>>();
                made.push((coset, rows.map_err(failed)?));
                made.len() - 1
            }
        };
        let rows = &made[known].1;
        if !is_right(transformer, batch, &transform, rows).map_err(failed)? {
            return Err(Failure::Wrong(what()));
        }
    }
    Ok(())
}

/// Up to this length, elements of inverse transforms come and go as integers.
const LG_INTEGERS_MAX: u32 = 10;

/// Whether the device transforms `polynomials`, one a row, as the host does.
fn is_right(
    transformer: &Transformer,
    batch: &NttBatch,
    transform: &Transform,
    polynomials: &[Polynomial],
) -> Result<bool, Error> {
    let &Transform { lg_n, inverse, coset, input_reversed, output_reversed } = transform;
    let integers = inverse && lg_n <= LG_INTEGERS_MAX;
    let encoding = if integers { ScalarEncoding::Canonical } else { ScalarEncoding::Montgomery };
    let (mut rows, mut expected) = (Vec::new(), Vec::new());
    for polynomial in polynomials {
        let (mut input, mut output) = polynomial.ends(transform);
        if integers {
            to_integers(&mut input);
            to_integers(&mut output);
        }
        rows.push(input);
        expected.push(output);
    }
    let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
    let in_place = InPlace::new(&mut rows);
    let (count, row_length) = (batch.rows, 1 << lg_n);
    let input = Encoded::new(encoding, count * row_length, &in_place);
    let given = Rows { input, count, row_length, encoding, output: &in_place, check: true };
    let planned = batch.planned_rows();
    match transformer.run_planned_for(planned, &plan, &given, &Control::default())? {
        None => Err(Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None }),
        Some(executor) => Ok(executor.checked && rows == expected),
    }
}
