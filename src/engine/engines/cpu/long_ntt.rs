//! NTTs of long rows in parts, between which a job can stop: arkworks' transforms cannot be
//! interrupted, and one of 2^28 elements takes a minute on few cores.

use ark_ff::{AdditiveGroup, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::row_passes::{TASK_ELEMENTS, permute, powers, scale_by_powers};
use crate::{
    curve::{Fr, reverse_bits},
    engines::JobControl,
    error::{Error, Result},
};

/// log2 of the elements of a part, which takes 50 ms of thread time
/// (`benches/experiments/cpu-engine.md`).
pub(super) const LG_PART: u32 = 17;

/// A transform of rows of more than 2^`lg_part` elements.
pub(super) struct LongNtt {
    pub domain: Radix2EvaluationDomain<Fr>,
    pub inverse: bool,
    pub lg_part: u32,
}

/// Transforms a row in place, as arkworks does.
///
/// Shape: the row has as many elements as the domain.
pub(super) type LongTransform = fn(&LongNtt, &mut [Fr], &JobControl) -> Result<()>;

impl LongNtt {
    /// Decimation in frequency: the outer stages, then each part by arkworks.
    pub fn transform_dif(&self, row: &mut [Fr], control: &JobControl) -> Result<()> {
        self.shift(row, control)?;
        let n = row.len();
        let mut twiddles = powers(self.root(), n / 2, control)?;
        for stage in 0..self.lg_parts() {
            if stage > 0 {
                control.check()?;
                let half = (0..twiddles.len() / 2).into_par_iter().with_min_len(TASK_ELEMENTS);
                twiddles = half.map(|i| twiddles[2 * i]).collect();
            }
            row.chunks_exact_mut(n >> stage).try_for_each(|block| {
                butterflies(block, &twiddles, control, |low, high, twiddle| {
                    let difference = *low - *high;
                    *low += *high;
                    *high = difference * twiddle;
                })
            })?;
        }
        drop(twiddles);
        self.transform_parts(row, control)?;
        // Part p holds the results whose index, modulo the number of parts, is p with its bits
        // reversed.
        let (lg_parts, lg_part) = (self.lg_parts(), self.lg_part);
        let part_of = |i: usize| reverse_bits(i & ((1 << lg_parts) - 1), lg_parts);
        permute(row, |i| (part_of(i) << lg_part) + (i >> lg_parts), control)?;
        self.unshift(row, control)
    }

    /// Decimation in time: each part by arkworks, then the outer stages. It shares no pass over the
    /// row with [`Self::transform_dif`] except permutations and products with powers.
    pub fn transform_dit(&self, row: &mut [Fr], control: &JobControl) -> Result<()> {
        self.shift(row, control)?;
        // Part p gets the elements whose index, modulo the number of parts, is p with its bits
        // reversed.
        let (lg_parts, lg_part) = (self.lg_parts(), self.lg_part);
        let remainder_of = |i: usize| reverse_bits(i >> lg_part, lg_parts);
        let within = |i: usize| i & ((1 << lg_part) - 1);
        permute(row, |i| (within(i) << lg_parts) + remainder_of(i), control)?;
        self.transform_parts(row, control)?;
        for lg_block in lg_part + 1..=lg_part + lg_parts {
            let root = self.root().pow([(row.len() >> lg_block) as u64]);
            let twiddles = powers(root, 1 << (lg_block - 1), control)?;
            row.chunks_exact_mut(1 << lg_block).try_for_each(|block| {
                butterflies(block, &twiddles, control, |low, high, twiddle| {
                    let product = *high * twiddle;
                    *high = *low - product;
                    *low += product;
                })
            })?;
        }
        self.unshift(row, control)
    }

    fn lg_parts(&self) -> u32 {
        self.domain.log_size_of_group - self.lg_part
    }

    fn root(&self) -> Fr {
        if self.inverse { self.domain.group_gen_inv } else { self.domain.group_gen }
    }

    fn shift(&self, row: &mut [Fr], control: &JobControl) -> Result<()> {
        if self.inverse || self.domain.offset == Fr::ONE {
            return Ok(());
        }
        scale_by_powers(row, self.domain.offset, Fr::ONE, control)
    }

    fn unshift(&self, row: &mut [Fr], control: &JobControl) -> Result<()> {
        if !self.inverse {
            return Ok(());
        }
        // The parts are scaled by their own size.
        let scale = Fr::from(2_u64).pow([u64::from(self.lg_parts())]);
        let scale = scale.inverse().unwrap_or(Fr::ZERO);
        scale_by_powers(row, self.domain.offset_inv, scale, control)
    }

    fn transform_parts(&self, row: &mut [Fr], control: &JobControl) -> Result<()> {
        let part_len = 1 << self.lg_part;
        let no_domain = || Error::Internal("no domain of the size of a part".into());
        let domain = Radix2EvaluationDomain::<Fr>::new(part_len).ok_or_else(no_domain)?;
        let mut part = Zeroizing::new(Vec::with_capacity(part_len));
        for elements in row.chunks_exact_mut(part_len) {
            control.check()?;
            part.clear();
            part.extend_from_slice(elements);
            if self.inverse {
                domain.ifft_in_place(&mut *part);
            } else {
                domain.fft_in_place(&mut *part);
            }
            elements.copy_from_slice(&part);
        }
        Ok(())
    }
}

/// Calls `butterfly` with each element of the block's lower half, the one of its upper half, and
/// their twiddle factor.
fn butterflies(
    block: &mut [Fr],
    twiddles: &[Fr],
    control: &JobControl,
    butterfly: impl Fn(&mut Fr, &mut Fr, Fr) + Sync,
) -> Result<()> {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let halves = low.par_chunks_mut(TASK_ELEMENTS).zip(high.par_chunks_mut(TASK_ELEMENTS));
    halves.zip(twiddles.par_chunks(TASK_ELEMENTS)).try_for_each(|((low, high), twiddles)| {
        control.check()?;
        for ((low, high), twiddle) in low.iter_mut().zip(high).zip(twiddles) {
            butterfly(low, high, *twiddle);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use ark_ff::UniformRand;

    use super::*;
    use crate::engines::CancellationGate;

    const LG_N: u32 = 9;
    const WAYS: [LongTransform; 2] = [LongNtt::transform_dif, LongNtt::transform_dit];

    fn domains(lg_n: u32) -> [Radix2EvaluationDomain<Fr>; 2] {
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).unwrap();
        [domain, domain.get_coset(Fr::from(7_u64)).unwrap()]
    }

    fn random_row(lg_n: u32) -> Vec<Fr> {
        let mut rng = ark_std::test_rng();
        (0..1 << lg_n).map(|_| Fr::rand(&mut rng)).collect()
    }

    fn check_all_parts(lg_n: u32, lg_parts: &[u32]) {
        let row = random_row(lg_n);
        for domain in domains(lg_n) {
            for (lg_part, way) in lg_parts.iter().flat_map(|lg_part| WAYS.map(|way| (lg_part, way)))
            {
                let in_parts = |inverse| {
                    let mut row = row.clone();
                    let ntt = LongNtt { domain, inverse, lg_part: *lg_part };
                    way(&ntt, &mut row, &JobControl::default()).unwrap();
                    row
                };
                assert!(in_parts(false) == domain.fft(&row), "parts of 2^{lg_part}");
                assert!(in_parts(true) == domain.ifft(&row), "inverse, parts of 2^{lg_part}");
            }
        }
    }

    #[test]
    fn transforms_in_parts_equal_those_of_arkworks() {
        check_all_parts(LG_N, &[1, 4, LG_N - 1]);
        // Several tasks in each pass.
        check_all_parts(15, &[5, 14]);
    }

    #[test]
    fn a_transform_stops_at_every_check() {
        let [_, domain] = domains(LG_N);
        for (way, inverse) in WAYS.iter().flat_map(|way| [(way, false), (way, true)]) {
            let run = |allowed: usize| {
                let checks = Arc::new(AtomicUsize::new(0));
                let counted = checks.clone();
                let gate: CancellationGate =
                    Arc::new(move || counted.fetch_add(1, Ordering::Relaxed) < allowed);
                let control = JobControl::default().behind(&gate);
                let ntt = LongNtt { domain, inverse, lg_part: LG_N - 2 };
                let done = way(&ntt, &mut vec![Fr::ONE; 1 << LG_N], &control);
                (done, checks.load(Ordering::Relaxed))
            };
            let (done, all) = run(usize::MAX);
            // Blocks of the two stages, and parts.
            assert!(done.is_ok() && all > 1 + 2 + 4, "{all} checks");
            for allowed in 0..all {
                assert_eq!(run(allowed).0, Err(Error::Cancelled), "after {allowed} checks");
            }
        }
    }
}
