//! NTTs in every order, and their checks at a secret point.

use std::collections::{HashMap, hash_map::Entry};

use ark_ff::{FftField, Field, PrimeField, batch_inversion};

use super::{
    super::ntt::GpuNtt,
    sizes::{NttBatch, transforms},
    verdict::SelfTestVerdict,
};
use crate::{
    curve::{Fr, reverse_bits, scalars::ScalarEncoding},
    device::DeviceFault,
    engine::{EncodedScalars, JobControl, NttPlan, NttRows, ntt_rows::RowsInPlace},
    error::{Error, Limit, Result},
};

/// A polynomial's coefficients and values, which the host computes in linear time: with
/// coefficients 1, a, a^2 ... the value at x is `(1 - (a x)^n) / (1 - a x)`.
struct Polynomial {
    coefficients: Vec<Fr>,
    /// The values at the generator of a coset times the powers of a root of unity.
    values: Vec<Fr>,
}

impl Polynomial {
    /// A polynomial for this row of a batch; rows differ.
    fn new(lg_n: u32, coset: Option<Fr>, row: usize) -> Result<Self> {
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
        // The nth power is the same at every root of unity.
        let numerator = Fr::ONE - ax.pow([n]);
        values.iter_mut().for_each(|value| *value *= numerator);
        Ok(Self { coefficients: powers(Fr::ONE, a), values })
    }

    fn input_and_output(&self, transform: &NttPlan) -> [Vec<Fr>; 2] {
        let mut rows = [self.coefficients.clone(), self.values.clone()];
        if transform.inverse {
            rows.reverse();
        }
        let orders = [transform.input_reversed, transform.output_reversed];
        for (row, _) in rows.iter_mut().zip(orders).filter(|(_, is_reversed)| *is_reversed) {
            reverse(row, transform.lg_n);
        }
        rows
    }
}

fn reverse(row: &mut [Fr], lg_n: u32) {
    for i in 0..row.len() {
        let j = reverse_bits(i, lg_n);
        if i < j {
            row.swap(i, j);
        }
    }
}

pub fn test(
    verdict: &SelfTestVerdict<'_>,
    gpu_ntt: &GpuNtt,
    batch: &NttBatch,
) -> Result<(), DeviceFault> {
    let mut by_coset: HashMap<Option<Fr>, Vec<Polynomial>> = HashMap::new();
    for transform in transforms(batch.lg_n) {
        let NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = transform;
        let job = || {
            let kind = if inverse { "an inverse NTT" } else { "an NTT" };
            let on = if coset.is_some() { " on a coset" } else { "" };
            let [from, to] = [input_reversed, output_reversed]
                .map(|reversed| if reversed { "bit-reversed" } else { "natural" });
            let full = if batch.planned_full { ", planned as a large batch" } else { "" };
            format!("{kind} of {} rows of 2^{lg_n}{on}, {from} to {to}{full}", batch.rows)
        };
        let is_right = match by_coset.entry(coset) {
            Entry::Occupied(rows) => is_right(gpu_ntt, batch, &transform, rows.get()),
            Entry::Vacant(entry) => {
                let rows = (0..batch.rows).map(|row| Polynomial::new(lg_n, coset, row));
                let rows = rows.collect::<Result<_>>();
                rows.and_then(|rows| is_right(gpu_ntt, batch, &transform, entry.insert(rows)))
            }
        };
        verdict.add(job, is_right)?;
    }
    Ok(())
}

/// Up to this length, elements of inverse transforms are sent and received in canonical form.
const LG_CANONICAL_MAX: u32 = 10;

/// Whether the device transforms `polynomials`, one per row, as the host does.
fn is_right(
    gpu_ntt: &GpuNtt,
    batch: &NttBatch,
    transform: &NttPlan,
    polynomials: &[Polynomial],
) -> Result<bool> {
    let &NttPlan { lg_n, inverse, .. } = transform;
    let is_canonical = inverse && lg_n <= LG_CANONICAL_MAX;
    let encoding =
        if is_canonical { ScalarEncoding::Canonical } else { ScalarEncoding::Montgomery };
    let (mut rows, mut expected) = (Vec::new(), Vec::new());
    for polynomial in polynomials {
        let [mut input, mut output] = polynomial.input_and_output(transform);
        if is_canonical {
            for value in input.iter_mut().chain(&mut output) {
                *value = Fr::new_unchecked(value.into_bigint());
            }
        }
        rows.push(input);
        expected.push(output);
    }
    let in_place = RowsInPlace::new(&mut rows);
    let (count, row_length) = (batch.rows, 1 << lg_n);
    let input = EncodedScalars::new(encoding, count * row_length, &in_place);
    let rows_in_place =
        NttRows { input, count, row_length, encoding, output: &in_place, check_on_device: true };
    let (planned, control) = (batch.planned_rows(), JobControl::default());
    match gpu_ntt.run(planned, transform, &rows_in_place, &control)? {
        // Without memory for its tables, the check is left out.
        Some(executor) if executor.checked_on_device => Ok(rows == expected),
        _ => Err(Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None }),
    }
}
