//! NTTs of long rows in parts, between which a job can stop: arkworks' transforms cannot be
//! interrupted, and one of 2^28 elements takes a minute on few cores.

use ark_ff::{AdditiveGroup, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, reverse_bits},
    engine::JobControl,
    error::{Error, Result},
};

/// log2 of the elements of a part, which takes a fraction of a second.
pub(super) const LG_PART: u32 = 20;

/// Elements per task.
const TASK_ELEMENTS: usize = 1 << 12;

/// Transforms a row of more than 2^`lg_part` elements in place, as arkworks does: first the outer
/// stages (DIF), then each part by arkworks.
///
/// Shape: the row has as many elements as `domain`.
pub(super) fn transform(
    domain: &Radix2EvaluationDomain<Fr>,
    inverse: bool,
    lg_part: u32,
    row: &mut [Fr],
    control: &JobControl,
) -> Result<()> {
    let (n, part_len) = (row.len(), 1 << lg_part);
    let stages = n.trailing_zeros() - lg_part;
    if !inverse && domain.offset != Fr::ONE {
        Radix2EvaluationDomain::distribute_powers(row, domain.offset);
    }
    let root = if inverse { domain.group_gen_inv } else { domain.group_gen };
    let twiddles = powers(root, n / 2);
    for stage in 0..stages {
        control.check()?;
        for block in row.chunks_exact_mut(n >> stage) {
            let (low, high) = block.split_at_mut(n >> (stage + 1));
            let pairs = low.par_iter_mut().zip(high).enumerate().with_min_len(TASK_ELEMENTS);
            pairs.for_each(|(i, (low, high))| {
                let difference = *low - *high;
                *low += *high;
                *high = difference * twiddles[i << stage];
            });
        }
    }
    drop(twiddles);
    let no_domain = || Error::Internal("no domain of the size of a part".into());
    let domain_of_part = Radix2EvaluationDomain::<Fr>::new(part_len).ok_or_else(no_domain)?;
    let mut part = Zeroizing::new(Vec::with_capacity(part_len));
    for elements in row.chunks_exact_mut(part_len) {
        control.check()?;
        part.clear();
        part.extend_from_slice(elements);
        if inverse {
            domain_of_part.ifft_in_place(&mut *part);
        } else {
            domain_of_part.fft_in_place(&mut *part);
        }
        elements.copy_from_slice(&part);
    }
    control.check()?;
    interleave(row, stages, lg_part);
    if inverse {
        // The parts are scaled by their own size.
        let scale = Fr::from(2_u64).pow([u64::from(stages)]).inverse().unwrap_or(Fr::ZERO);
        let shift = domain.offset_inv;
        Radix2EvaluationDomain::distribute_powers_and_mul_by_const(row, shift, scale);
    }
    Ok(())
}

/// Puts the parts into natural order: part p holds the results whose index, modulo the number of
/// parts, is p with its bits reversed.
fn interleave(row: &mut [Fr], lg_parts: u32, lg_part: u32) {
    let source = Zeroizing::new(row.to_vec());
    let last = (1 << lg_parts) - 1;
    row.par_iter_mut().with_min_len(TASK_ELEMENTS).enumerate().for_each(|(i, value)| {
        let part = reverse_bits(i & last, lg_parts);
        *value = source[(part << lg_part) + (i >> lg_parts)];
    });
}

/// 1, `base`, `base`^2 and so on.
fn powers(base: Fr, count: usize) -> Vec<Fr> {
    let mut powers = vec![Fr::ONE; count];
    Radix2EvaluationDomain::distribute_powers(&mut powers, base);
    powers
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use ark_ff::UniformRand;

    use super::*;
    use crate::engine::CancellationGate;

    const LG_N: u32 = 9;

    fn domains() -> [Radix2EvaluationDomain<Fr>; 2] {
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << LG_N).unwrap();
        [domain, domain.get_coset(Fr::from(7_u64)).unwrap()]
    }

    #[test]
    fn transforms_in_parts_equal_those_of_arkworks() {
        let mut rng = ark_std::test_rng();
        let row: Vec<_> = (0..1 << LG_N).map(|_| Fr::rand(&mut rng)).collect();
        for domain in domains() {
            for lg_part in [1, 4, LG_N - 1] {
                let in_parts = |inverse| {
                    let mut row = row.clone();
                    let control = JobControl::default();
                    transform(&domain, inverse, lg_part, &mut row, &control).unwrap();
                    row
                };
                assert!(in_parts(false) == domain.fft(&row), "parts of 2^{lg_part}");
                assert!(in_parts(true) == domain.ifft(&row), "inverse, parts of 2^{lg_part}");
            }
        }
    }

    #[test]
    fn a_transform_stops_at_every_check() {
        // Two stages, four parts, and before the end.
        const CHECKS: usize = 2 + 4 + 1;
        for allowed in 0..=CHECKS {
            let left = AtomicUsize::new(allowed);
            let next = |left: usize| left.checked_sub(1);
            let gate: CancellationGate = Arc::new(move || {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
            });
            let control = JobControl::default().behind(&gate);
            let mut row = vec![Fr::ONE; 1 << LG_N];
            let done = transform(&domains()[0], false, LG_N - 2, &mut row, &control);
            let expected = if allowed == CHECKS { Ok(()) } else { Err(Error::Cancelled) };
            assert_eq!(done, expected, "after {allowed} checks");
        }
    }
}
