//! Sums of multiples of integers.

use crate::{engine::JobControl, error::Result};

/// Limbs between two looks at the job's control.
const PIECE: usize = 1 << 16;

/// An integer, the lowest limb first, and what it is multiplied by.
pub struct SumTerm<'a> {
    pub limbs: &'a [u32],
    pub factor: i64,
}

impl SumTerm<'_> {
    /// What limb number `at` adds to the sum. A negative factor -f takes f times the complement of
    /// the integer, whose limbs are all ones above its highest one, and f more.
    fn product(&self, at: usize) -> u64 {
        let limb = self.limbs.get(at).copied().unwrap_or(0);
        let limb = if self.factor < 0 { !limb } else { limb };
        u64::from(limb) * self.factor.unsigned_abs()
    }
}

/// Sets `out` to the sum modulo 2^32 to the power of its length.
///
/// Shape: the magnitudes of the factors add up to at most
/// [`MAGNITUDES_MAX`](super::MAGNITUDES_MAX).
/// Errors: those of `control`.
pub fn set_sum(terms: &[SumTerm<'_>], out: &mut [u32], control: &JobControl) -> Result<()> {
    let negative = terms.iter().filter(|term| term.factor < 0);
    let mut carry: u64 = negative.map(|term| term.factor.unsigned_abs()).sum();
    for (piece, limbs) in out.chunks_mut(PIECE).enumerate() {
        control.check()?;
        for (at, limb) in (piece * PIECE..).zip(limbs) {
            // At most (2^32 - 1)^2 + 2^32 - 1.
            let sum = terms.iter().map(|term| term.product(at)).sum::<u64>() + carry;
            (*limb, carry) = (sum as u32, sum >> 32);
        }
    }
    Ok(())
}
