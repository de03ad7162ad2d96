//! The powers of an element with exponents below 2^lg_n, in natural or bit-reversed order, computed
//! from a small table.

use std::iter::successors;

use ark_ff::{AdditiveGroup, Field};
use rayon::prelude::*;

use crate::{
    curve::{Fr, reverse_bits},
    engines::JobControl,
    error::Result,
};

/// Powers in pieces of `low.len()` elements that share a factor, a power of `base`.
pub(super) struct FactoredPowers {
    base: Fr,
    low: Vec<Fr>,
    high_bits: u32,
    reversed: bool,
}

impl FactoredPowers {
    /// Element i is `base^i`; with `reversed`, `base^j` for the bit reversal j of i in lg_n bits.
    pub fn new(base: Fr, lg_n: u32, reversed: bool) -> Self {
        // 32 KiB: half of the L1 cache.
        let low_bits = lg_n.min(10);
        let high_bits = lg_n - low_bits;
        // With bit reversal, the low bits of the index are the high bits of the exponent.
        let step = if reversed { base.pow([1u64 << high_bits]) } else { base };
        let powers = successors(Some(Fr::ONE), |power| Some(*power * step));
        let powers: Vec<Fr> = powers.take(1 << low_bits).collect();
        let low = match reversed {
            false => powers,
            true => (0..1 << low_bits).map(|i| powers[reverse_bits(i, low_bits)]).collect(),
        };
        Self { base, low, high_bits, reversed }
    }

    /// The sum of `piece(row, low, high)` over pieces of `row`, whose powers are `low[i] * high`.
    /// Runs in parallel on the current rayon pool.
    ///
    /// Errors: those of `control`.
    pub fn sum_pieces(
        &self,
        row: &[Fr],
        control: &JobControl,
        piece: impl Fn(&[Fr], &[Fr], Fr) -> Fr + Sync,
    ) -> Result<Fr> {
        let pieces = row.par_chunks(self.low.len()).enumerate().map(|(number, row)| {
            control.check()?;
            let exponent = match self.reversed {
                true => reverse_bits(number, self.high_bits),
                false => number * self.low.len(),
            };
            Ok(piece(row, &self.low, self.base.pow([exponent as u64])))
        });
        pieces.try_reduce(|| Fr::ZERO, |a, b| Ok(a + b))
    }
}
