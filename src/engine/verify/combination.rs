//! Checks the sums `A_j` of many scalar vectors `x_j` over the same bases by one more MSM: with
//! secret random factors `f_j`, `sum of f_j A_j` must be the MSM of `sum of f_j x_j`. Wrong sums
//! pass with probability below 2^-127: all sums are in the subgroup, whose order r is prime.
//!
//! Source: small exponents test, Bellare, Garay and Rabin, EUROCRYPT 1998, section 3,
//! <https://cseweb.ucsd.edu/~mihir/papers/batch.pdf>.

use ark_ff::{AdditiveGroup, BigInt, BigInteger, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, points::MsmSums, scalars::Scalars},
    engines::{EncodedScalars, JobControl},
    error::{Error, Result},
};

/// Scalars per parallel task.
const TASK_SCALARS: usize = 1024;

/// Sums between two checks of the job: about 50 ms of thread time.
const PIECE_SUMS: usize = 512;

/// The secret random factors, one per vector.
pub struct RandomCombination(Zeroizing<Vec<u128>>);

impl RandomCombination {
    pub fn draw(vectors: usize) -> Result<Self> {
        let mut factors = Zeroizing::new(vec![0; vectors]);
        for factor in factors.iter_mut() {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|_| Error::Internal("no random bytes".into()))?;
            *factor = u128::from_le_bytes(bytes);
        }
        Ok(Self(factors))
    }

    /// The factors, one per vector.
    pub fn factors(&self) -> impl Iterator<Item = Fr> {
        self.0.iter().map(|factor| Fr::from(*factor))
    }

    /// The combined scalars of a piece. Parallel in the current rayon pool.
    ///
    /// Shape: `pieces` has one piece per vector, all of the same length.
    /// Errors: like [`EncodedScalars::decode_scalars`]; those of `control`.
    pub fn scalars(
        &self,
        pieces: &[EncodedScalars<'_>],
        control: &JobControl,
    ) -> Result<Zeroizing<Vec<Fr>>> {
        let count = pieces.first().map_or(0, |piece| piece.count());
        let mut sums = Zeroizing::new(vec![Fr::ZERO; count]);
        let mut buffer = Zeroizing::default();
        for (piece, factor) in pieces.iter().zip(self.0.iter()) {
            control.check()?;
            let scalars = piece.decode_scalars(buffer)?;
            let factor = Fr::from(*factor);
            sums.par_iter_mut().with_min_len(TASK_SCALARS).enumerate().for_each(|(i, sum)| {
                *sum += scalar_to_fr(&scalars, i) * factor;
            });
            buffer = scalars.into_bytes();
        }
        Ok(sums)
    }

    /// Whether `sums` are correct, given the MSM of the combined scalars. Parallel in the current
    /// rayon pool.
    ///
    /// Errors: those of `control`.
    pub fn verifies(
        &self,
        sums: &MsmSums,
        combined: &MsmSums,
        control: &JobControl,
    ) -> Result<bool> {
        if sums.len() != self.0.len() {
            return Ok(false);
        }
        let mut total = sums.part(0..0).linear_combination(&[]);
        for (piece, factors) in self.0.chunks(PIECE_SUMS).enumerate() {
            control.check()?;
            let first = piece * PIECE_SUMS;
            let sums = sums.part(first..first + factors.len());
            if !sums.are_in_subgroup() {
                return Ok(false);
            }
            let sum = total.plus(&sums.linear_combination(factors));
            total = sum.ok_or_else(|| Error::Internal("sums of another group".into()))?;
        }
        Ok(total == *combined)
    }
}

fn scalar_to_fr(scalars: &Scalars, i: usize) -> Fr {
    let width = scalars.width();
    let mut bytes = [0; 32];
    bytes[..width].copy_from_slice(&scalars.magnitudes()[i * width..][..width]);
    let mut integer = BigInt([0; 4]);
    for (limb, bytes) in integer.0.iter_mut().zip(bytes.as_chunks().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    if integer.is_zero() {
        return Fr::ZERO;
    }
    let value = Fr::from_bigint(integer).expect("decoding checked that the scalar is less than r");
    let negative = scalars.signs().is_some_and(|negative| negative[i]);
    if negative { -value } else { value }
}
