//! Products of short factors by a library, in parallel by pieces of the longer factor.

use dashu_int::UBig;
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{engines::JobControl, error::Result};

/// Limbs of the longest piece, unless the shorter factor has more: a fraction of a millisecond.
const PIECE: usize = 1 << 12;
/// Pieces whose products are held at the same time.
const PIECES: usize = 64;

/// Limbs that are held at the same time for the product of a row, apart from those of the library.
pub(super) fn working_limbs(a: u64, b: u64) -> u64 {
    let short = a.min(b);
    let long = a.max(b);
    let piece = short.max(PIECE as u64);
    // A piece, the library's copies of both factors, and the product.
    4 * (short + long.min(piece)) * (PIECES as u64).min(long.div_ceil(piece))
}

/// The square of an integer. What the library holds while it multiplies is not wiped.
pub(super) fn square(a: &[u32], out: &mut [u32]) {
    out.fill(0);
    set(&Zeroizing::new(integer(a).sqr()), out);
}

/// The product of two integers.
///
/// Errors: those of `control`.
pub(super) fn product(a: &[u32], b: &[u32], out: &mut [u32], control: &JobControl) -> Result<()> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let piece = short.len().max(PIECE);
    let short = integer(short);
    if long.len() <= piece {
        control.check()?;
        out.fill(0);
        set(&Zeroizing::new(&*short * &*integer(long)), out);
        return Ok(());
    }
    out.fill(0);
    for (number, pieces) in long.chunks(PIECES * piece).enumerate() {
        let products = pieces.par_chunks(piece).map(|piece| {
            control.check()?;
            Ok(Zeroizing::new(&*short * &*integer(piece)))
        });
        let products = products.collect::<Result<Vec<_>>>()?;
        for (index, product) in products.iter().enumerate() {
            add(product, &mut out[(number * PIECES + index) * piece..]);
        }
    }
    Ok(())
}

fn integer(limbs: &[u32]) -> Zeroizing<UBig> {
    let words = limbs.chunks(2).map(|pair| {
        let high = pair.get(1).copied().unwrap_or(0);
        u64::from(high) << 32 | u64::from(pair[0])
    });
    Zeroizing::new(UBig::from_words(&Zeroizing::new(words.collect::<Vec<_>>())))
}

/// The limbs of an integer, up to the highest one that is not zero, and perhaps a zero.
fn limbs(integer: &UBig) -> impl Iterator<Item = u32> + '_ {
    integer.as_words().iter().flat_map(|word| [*word as u32, (word >> 32) as u32])
}

/// Sets limbs that are zero.
fn set(integer: &UBig, out: &mut [u32]) {
    out.iter_mut().zip(limbs(integer)).for_each(|(out, limb)| *out = limb);
}

/// Adds an integer. The sum fits.
fn add(integer: &UBig, out: &mut [u32]) {
    let mut carry = 0;
    let mut own = limbs(integer);
    for out in out {
        let limb = own.next();
        if limb.is_none() && carry == 0 {
            return;
        }
        let sum = u64::from(*out) + u64::from(limb.unwrap_or(0)) + carry;
        (*out, carry) = (sum as u32, sum >> 32);
    }
}
