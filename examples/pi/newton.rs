//! Newton's method in fixed point: reciprocals and 1 / sqrt(10005).
//!
//! A number with k fraction limbs is a row of integers in units of 2^(-32 k). Results are rounded
//! down, so that approximations stay below what they approximate, and the corrections are never
//! negative. Each iteration nearly doubles the number of fraction limbs, from k to K <= 2k - 1.

use capstan::client::{ProgramBuilder, Result, VectorValue};

/// Fraction limbs of the first approximations, which the client computes.
pub const START_LIMBS: u64 = 2;
/// The number whose root is computed.
pub const RADICAND: u32 = 10_005;

/// Limbs of a reciprocal's first approximation: `START_LIMBS`, and one of the integer part.
pub const RECIPROCAL_START_LIMBS: u64 = START_LIMBS + 1;

/// The first approximation of 1 / t, for t from 1/2 to 1 whose two highest limbs are `top`.
pub fn reciprocal_start(top: u64) -> u128 {
    u128::MAX / (u128::from(top) + 1)
}

/// The first approximation of 1 / sqrt(10005).
pub fn root_start() -> u128 {
    (u128::MAX / u128::from(RADICAND)).isqrt()
}

/// The fraction limbs of all approximations, from `START_LIMBS` to `limbs`.
fn fraction_limbs(limbs: u64) -> Vec<u64> {
    let mut all = vec![limbs];
    let mut last = limbs;
    while last > START_LIMBS {
        last = last / 2 + 1;
        all.push(last);
    }
    all.reverse();
    all
}

/// 1 / t for a fraction t of at least 1/2: as many fraction limbs as t has, and one of the integer
/// part. It is too small by less than 6 units.
///
/// An iteration takes t', the K highest limbs of t plus one unit, so that t < t'. It computes x + x
/// e for e = 1 - t' x, which is (1 - e^2) / t' and so at most 1 / t'. Later t' are not larger,
/// hence x <= 1 / t' holds before each iteration, and e >= 0. The errors, in units of 2^(-32 K): 4
/// because of t', 1 by rounding the sum, and e^2 / t' and the limbs of e that are dropped, both
/// below 2^-20. So x is too small by less than 6 units, as is the first approximation, and e < 6
/// 2^(-32 k) is a number of K + 1 limbs in units of the product.
pub fn reciprocal(
    builder: &mut ProgramBuilder,
    t: VectorValue,
    start: VectorValue,
) -> Result<VectorValue> {
    let mut x = start;
    for pair in fraction_limbs(t.length()).windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let highest = builder.slice(t, t.length() - to, to)?;
        let product = builder.int_mul(highest, x)?;
        // 1 is a multiple of the modulus.
        let e = builder.int_sum(&[product, x], &[-1, -1], to + 1)?;
        let e = builder.slice(e, from - 1, to - from + 2)?;
        let correction = builder.int_mul(x, e)?;
        let correction = builder.slice(correction, from + 1, to - from + 2)?;
        let extended = with_limbs_below(builder, x, to - from)?;
        x = builder.int_sum(&[extended, correction], &[1, 1], to + 1)?;
    }
    Ok(x)
}

/// 1 / sqrt(10005) with a number of fraction limbs. It is too small by less than 2 units.
///
/// An iteration computes s + s e / 2 for e = 1 - 10005 s^2 exactly. With s = (1 - d) / sqrt(10005),
/// the result is (1 - 3 d^2 / 2 + d^3 / 2) / sqrt(10005): below the root, by less than 2^-20 units,
/// plus one by rounding. So e < 2^10 2^(-32 k) has k + 1 limbs in units of the square.
pub fn inverse_root(
    builder: &mut ProgramBuilder,
    start: VectorValue,
    limbs: u64,
) -> Result<VectorValue> {
    let mut s = start;
    for pair in fraction_limbs(limbs).windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let square = builder.int_mul(s, s)?;
        let e = builder.int_sum(&[square], &[-i64::from(RADICAND)], from + 1)?;
        let e = builder.slice(e, 2 * from - to - 1, to - from + 2)?;
        let correction = builder.int_mul(s, e)?;
        let correction = builder.slice(correction, from, to - from + 2)?;
        // Half of the correction is 2^31 times it, one limb below.
        let extended = with_limbs_below(builder, s, to + 2 - from)?;
        let sum = builder.int_sum(&[extended, correction], &[1, 1 << 31], to + 2)?;
        s = builder.slice(sum, 2, to)?;
    }
    Ok(s)
}

/// The value times 2^(32 `limbs`).
fn with_limbs_below(
    builder: &mut ProgramBuilder,
    value: VectorValue,
    limbs: u64,
) -> Result<VectorValue> {
    let padded = builder.pad(value, value.length() + limbs)?;
    let zeros = builder.slice(padded, value.length(), limbs)?;
    builder.concat(&[zeros, value])
}
