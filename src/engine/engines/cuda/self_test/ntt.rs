//! NTTs in every order, and their checks at a secret point.

use std::collections::{HashMap, HashSet};

use ark_ff::{AdditiveGroup, FftField, Field, PrimeField, batch_inversion_and_mul};
use rayon::{
    ThreadPool,
    iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator},
    slice::ParallelSliceMut,
};

use super::{
    super::ntt::GpuNtt,
    sizes::{NttBatch, transforms},
    verdict::SelfTestVerdict,
};
use crate::{
    curve::{Fr, reverse_bits, scalars::ScalarEncoding},
    device::DeviceFault,
    engines::{EncodedScalars, JobControl, NttPlan, NttRows, ntt_rows::RowsInPlace},
    error::{Error, Limit, Result},
};

/// Powers that are computed one after the other.
const CHUNK: usize = 1 << 12;

/// One polynomial per row of a batch, whose coefficients and values the host computes in linear
/// time: with coefficients 1, a, a^2 ... the value at x is `(1 - (a x)^n) / (1 - a x)`.
struct Polynomials {
    lg_n: u32,
    coefficients: Vec<Vec<Fr>>,
    /// The values at the powers of a root of unity, times the generator of a coset.
    values: HashMap<Option<Fr>, Vec<Vec<Fr>>>,
}

impl Polynomials {
    fn new(batch: &NttBatch, root: Fr) -> Self {
        let n = 1 << batch.lg_n;
        // Rows differ.
        let base = |row: usize| Fr::GENERATOR.pow([0xca95_7a11 + row as u64]);
        let bases: Vec<_> = (0..batch.rows).map(base).collect();
        let value_rows = |coset: Option<Fr>| {
            let firsts = bases.iter().map(|a| *a * coset.unwrap_or(Fr::ONE));
            firsts.map(|first| values(first, root, n)).collect()
        };
        let coefficients = bases.iter().map(|a| powers(Fr::ONE, *a, n)).collect();
        let cosets = transforms(batch.lg_n).map(|transform| transform.coset);
        let cosets: HashSet<_> = cosets.collect();
        let values = cosets.into_iter().map(|coset| (coset, value_rows(coset))).collect();
        Self { lg_n: batch.lg_n, coefficients, values }
    }

    /// The input and the output of a transform.
    fn ends(&self, transform: &NttPlan) -> [TransformRows<'_>; 2] {
        let NttPlan { inverse, coset, input_reversed, output_reversed, .. } = *transform;
        let encoding = if inverse && self.lg_n <= LG_CANONICAL_MAX {
            ScalarEncoding::Canonical
        } else {
            ScalarEncoding::Montgomery
        };
        let mut polynomials = [&self.coefficients, &self.values[&coset]];
        if inverse {
            polynomials.reverse();
        }
        let [input, output] = polynomials;
        let rows =
            |rows, is_reversed| TransformRows { lg_n: self.lg_n, rows, is_reversed, encoding };
        [rows(input, input_reversed), rows(output, output_reversed)]
    }
}

/// `n` numbers: `first` times the powers of `base`.
fn powers(first: Fr, base: Fr, n: usize) -> Vec<Fr> {
    let mut powers = vec![Fr::ZERO; n];
    powers.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, powers)| {
        let mut next = first * base.pow([(chunk * CHUNK) as u64]);
        for power in powers {
            *power = next;
            next *= base;
        }
    });
    powers
}

/// The values at all x for which `a x` is `first` times a power of `root`.
fn values(first: Fr, root: Fr, n: usize) -> Vec<Fr> {
    let mut values = powers(first, root, n);
    values.par_iter_mut().for_each(|ax| *ax = Fr::ONE - *ax);
    // The nth power is the same at every root of unity.
    batch_inversion_and_mul(&mut values, &(Fr::ONE - first.pow([n as u64])));
    values
}

/// Rows at one end of a transform.
struct TransformRows<'p> {
    lg_n: u32,
    /// In natural order, in Montgomery form.
    rows: &'p [Vec<Fr>],
    is_reversed: bool,
    encoding: ScalarEncoding,
}

impl TransformRows<'_> {
    /// The elements of a row, in the order and encoding of the transform.
    fn elements<'r>(&'r self, row: &'r [Fr]) -> impl Iterator<Item = Fr> + 'r {
        (0..row.len()).map(|i| {
            let value = row[if self.is_reversed { reverse_bits(i, self.lg_n) } else { i }];
            match self.encoding {
                ScalarEncoding::Canonical => Fr::new_unchecked(value.into_bigint()),
                _ => value,
            }
        })
    }

    fn copy_to(&self, rows: &mut [Vec<Fr>]) {
        for (to, from) in rows.iter_mut().zip(self.rows) {
            to.iter_mut().zip(self.elements(from)).for_each(|(to, value)| *to = value);
        }
    }

    fn equal(&self, rows: &[Vec<Fr>]) -> bool {
        let pairs = rows.iter().zip(self.rows);
        pairs.into_iter().all(|(found, row)| found.iter().copied().eq(self.elements(row)))
    }
}

pub fn test(
    verdict: &SelfTestVerdict<'_>,
    gpu_ntt: &GpuNtt,
    threads: &ThreadPool,
    batch: &NttBatch,
) -> Result<(), DeviceFault> {
    let no_root = || DeviceFault::WrongResult("no root of unity of that order".to_owned());
    let root = Fr::get_root_of_unity(1 << batch.lg_n).ok_or_else(no_root)?;
    let polynomials = threads.install(|| Polynomials::new(batch, root));
    let mut rows = vec![vec![Fr::ZERO; 1 << batch.lg_n]; batch.rows];
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
        let ends = polynomials.ends(&transform);
        verdict.add(job, is_right(gpu_ntt, batch, &transform, ends, &mut rows))?;
    }
    Ok(())
}

/// Up to this length, elements of inverse transforms are sent and received in canonical form.
const LG_CANONICAL_MAX: u32 = 10;

/// Whether the device transforms the input to the output. `rows` are overwritten.
fn is_right(
    gpu_ntt: &GpuNtt,
    batch: &NttBatch,
    transform: &NttPlan,
    [input, output]: [TransformRows<'_>; 2],
    rows: &mut [Vec<Fr>],
) -> Result<bool> {
    input.copy_to(rows);
    let in_place = RowsInPlace::new(rows);
    let count = batch.rows;
    let row_length = 1 << transform.lg_n;
    let encoding = input.encoding;
    let input = EncodedScalars::new(encoding, count * row_length, &in_place);
    let rows_in_place =
        NttRows { input, count, row_length, encoding, output: &in_place, check_on_device: true };
    let planned = batch.planned_rows();
    let control = JobControl::default();
    match gpu_ntt.run(planned, transform, &rows_in_place, &control)? {
        // Without memory for its tables, the check is left out.
        Some(executor) if executor.checked_on_device => Ok(output.equal(rows)),
        _ => Err(Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None }),
    }
}
