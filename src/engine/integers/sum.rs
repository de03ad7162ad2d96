//! Sums of multiples of integers.

use zeroize::Zeroizing;

use crate::{engines::JobControl, error::Result};

/// Limbs that are added up before they are carried: their sums stay in the first cache.
const PIECE_LIMBS: usize = 1 << 11;

/// An integer, the lowest limb first, and what it is multiplied by.
pub struct SumTerm<'a> {
    pub limbs: &'a [u32],
    pub factor: i64,
}

impl SumTerm<'_> {
    /// Adds the products of the limbs from `first` on to `sums`. A negative factor -f takes f times
    /// the complement of the integer, whose limbs are all ones above its highest one, and f more.
    fn add_to(&self, sums: &mut [u64], first: usize) {
        let factor = self.factor.unsigned_abs();
        let own = self.limbs.get(first..).unwrap_or_default();
        let flipped = if self.factor < 0 { u32::MAX } else { 0 };
        let (with_limbs, above) = sums.split_at_mut(own.len().min(sums.len()));
        for (sum, limb) in with_limbs.iter_mut().zip(own) {
            *sum += u64::from(limb ^ flipped) * factor;
        }
        if flipped > 0 {
            above.iter_mut().for_each(|sum| *sum += u64::from(flipped) * factor);
        }
    }
}

/// Sets `out` to the sum modulo 2^32 to the power of its length.
///
/// Shape: the magnitudes of the factors add up to at most
/// [`MAGNITUDES_MAX`](crate::operation::MAGNITUDES_MAX).
/// Errors: those of `control`.
pub fn set_sum(terms: &[SumTerm<'_>], out: &mut [u32], control: &JobControl) -> Result<()> {
    let negative = terms.iter().filter(|term| term.factor < 0);
    let mut carry: u64 = negative.map(|term| term.factor.unsigned_abs()).sum();
    let mut sums = Zeroizing::new(vec![0; PIECE_LIMBS.min(out.len())]);
    for (piece, limbs) in out.chunks_mut(PIECE_LIMBS).enumerate() {
        control.check()?;
        let sums = &mut sums[..limbs.len()];
        sums.fill(0);
        terms.iter().for_each(|term| term.add_to(sums, piece * PIECE_LIMBS));
        for (limb, sum) in limbs.iter_mut().zip(sums) {
            // At most (2^32 - 1)^2 + 2^32 - 1.
            let sum = *sum + carry;
            (*limb, carry) = (sum as u32, sum >> 32);
        }
    }
    Ok(())
}
