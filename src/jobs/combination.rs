//! A check of many sums over the same bases by one more: with secret random factors,
//! `sum of f_j A_j` must be the MSM of `sum of f_j x_j`. A wrong result passes with probability
//! below 2^-127, as all sums are in the subgroup of order r, which has no smaller one.
//!
//! Source: small exponents test, Bellare, Garay and Rabin, EUROCRYPT 1998, section 3,
//! <https://cseweb.ucsd.edu/~mihir/papers/batch.pdf>.

use ark_ff::{AdditiveGroup, BigInt, BigInteger, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, points::Sums, scalars::Scalars},
    engine::Encoded,
    error::{Error, Result},
};

/// Scalars of a task.
const GRAIN: usize = 1024;

/// The factors, one a vector.
pub struct Combination(Zeroizing<Vec<u128>>);

impl Combination {
    /// Draws factors that nobody knows.
    ///
    /// Errors: `Internal` where the system has no randomness.
    pub fn draw(vectors: usize) -> Result<Self> {
        let mut factors = Zeroizing::new(vec![0; vectors]);
        for factor in factors.iter_mut() {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|_| Error::Internal("no randomness".into()))?;
            *factor = u128::from_le_bytes(bytes);
        }
        Ok(Self(factors))
    }

    /// The combined scalars of a piece. Parallel in the current rayon pool.
    ///
    /// Shape: `pieces` has that of each vector, equally long.
    /// Errors: as [`Encoded::scalars`].
    pub fn scalars(&self, pieces: &[Encoded<'_>]) -> Result<Zeroizing<Vec<Fr>>> {
        let count = pieces.first().map_or(0, |piece| piece.count);
        let mut sums = Zeroizing::new(vec![Fr::ZERO; count]);
        let mut buffer = Zeroizing::default();
        for (piece, factor) in pieces.iter().zip(self.0.iter()) {
            let scalars = piece.scalars(buffer)?;
            let factor = Fr::from(*factor);
            sums.par_iter_mut().with_min_len(GRAIN).enumerate().for_each(|(i, sum)| {
                *sum += element(&scalars, i) * factor;
            });
            buffer = scalars.into_bytes();
        }
        Ok(sums)
    }

    /// Whether `sums` are right, if `combined` is the MSM of the combined scalars. Parallel as
    /// above.
    pub fn holds(&self, sums: &Sums, combined: &Sums) -> bool {
        sums.are_in_subgroup() && sums.combined(&self.0) == *combined
    }
}

/// Scalar number `i`.
fn element(scalars: &Scalars, i: usize) -> Fr {
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
    let value = Fr::from_bigint(integer).expect("decoding has checked that it is below r");
    let negative = scalars.negative().is_some_and(|negative| negative[i]);
    if negative { -value } else { value }
}
