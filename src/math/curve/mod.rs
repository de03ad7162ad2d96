//! BLS12-381 as host and kernels share it: groups, sizes, memory layouts, encodings.

mod batch;
mod fr_field;
pub mod layout;
mod ntt_plan;
pub mod points;
pub mod scalars;
pub mod serialized;

use serde::{Deserialize, Serialize};

pub use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};
pub use fr_field::FrField;
pub use ntt_plan::{Decimation, NttPlan};

/// log2 of the largest power of two that divides r - 1, and so of the largest possible NTT.
pub const TWO_ADICITY: u32 = 32;

/// The lowest `lg_n` bits of `index` in reverse order: the bit-reversed place of a row of 2^lg_n.
///
/// Shape: `index < 2^lg_n`.
#[inline]
pub const fn reverse_bits(index: usize, lg_n: u32) -> usize {
    if lg_n == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - lg_n) }
}

/// A group of order r on BLS12-381.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// The subgroup of E(Fp).
    G1,
    /// The subgroup of E'(Fp2).
    G2,
}

impl Group {
    /// Bytes of one coordinate: 48 or 96.
    pub const fn coordinate_bytes(self) -> usize {
        match self {
            Self::G1 => 48,
            Self::G2 => 96,
        }
    }

    /// Bytes of an affine point in memory: 96 or 192.
    pub const fn affine_bytes(self) -> usize {
        2 * self.coordinate_bytes()
    }

    /// `g1` or `g2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1 => "g1",
            Self::G2 => "g2",
        }
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
