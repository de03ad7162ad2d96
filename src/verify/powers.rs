//! The powers of an element with exponents below 2^lg_n, in natural or bit-reversed order, computed
//! from a small table.

use ark_ff::Field;

use crate::curve::{Fr, reverse_bits};

/// Powers in pieces that share a factor: element i is `low()[i % piece()] * high(i / piece())`.
pub(super) struct FactoredPowers {
    base: Fr,
    low: Vec<Fr>,
    high_bits: u32,
    reversed: bool,
}

impl FactoredPowers {
    /// Element i is `base^i`; with `reversed`, `base^j` for the bit reversal j of i in lg_n bits.
    pub(super) fn new(base: Fr, lg_n: u32, reversed: bool) -> Self {
        // 32 KiB: half of the L1 cache.
        let low_bits = lg_n.min(10);
        let high_bits = lg_n - low_bits;
        // With bit reversal, the low bits of the index are the high bits of the exponent.
        let step = if reversed { base.pow([1u64 << high_bits]) } else { base };
        let mut powers = Vec::with_capacity(1 << low_bits);
        let mut power = Fr::ONE;
        for _ in 0..1u32 << low_bits {
            powers.push(power);
            power *= step;
        }
        let low = match reversed {
            false => powers,
            true => (0..1 << low_bits).map(|i| powers[reverse_bits(i, low_bits)]).collect(),
        };
        Self { base, low, high_bits, reversed }
    }

    /// The number of consecutive elements that share a factor.
    pub(super) fn piece_len(&self) -> usize {
        self.low.len()
    }

    /// The factors that vary within a piece.
    pub(super) fn low(&self) -> &[Fr] {
        &self.low
    }

    /// The factor that all elements of piece number `piece` share.
    pub(super) fn high(&self, piece: usize) -> Fr {
        let exponent = match self.reversed {
            true => reverse_bits(piece, self.high_bits),
            false => piece * self.low.len(),
        };
        self.base.pow([exponent as u64])
    }
}
