//! The last level of the series: its numbers are longer than the result is precise, so it
//! multiplies only their highest limbs.
//!
//! Each vector has one row here, so that the number of dropped limbs suits each number. Rows of
//! other levels have different sizes, and their vectors would have to drop the same number from
//! all.

use capstan::client::{ProgramBuilder, Result, VectorValue};

use super::{
    bounds::TermLimbs,
    series::{Neighbours, shortened, sign},
    sizes::Sizes,
};

/// An integer times 2^(32 `dropped`): about what it was before its lowest limbs were dropped.
#[derive(Clone, Copy)]
pub struct Scaled {
    pub value: VectorValue,
    pub dropped: u64,
}

/// Drops the `dropped` lowest limbs of a value that has at most `limbs` limbs.
fn drop_lowest(
    builder: &mut ProgramBuilder,
    value: VectorValue,
    limbs: u64,
    dropped: u64,
) -> Result<Scaled> {
    let limbs = limbs.min(value.length());
    Ok(Scaled { value: builder.slice(value, dropped, limbs - dropped)?, dropped })
}

/// Q with the precision's number of limbs, and T with one more, of which the highest may be zero.
///
/// The bounds of Q and T are too large by less than 3 bits, which may leave the highest limb zero.
/// So an operand that keeps n limbs has a relative error below 2^(-32 (n - 1) + 3). P1 T2 is
/// shorter than T1 Q2 by about half the precision; both its operands are cut so that the error is
/// below three units of the last limb of T.
pub fn join(
    builder: &mut ProgramBuilder,
    Neighbours { left, right }: &Neighbours,
    sizes: &Sizes,
) -> Result<[Scaled; 2]> {
    let (half, precision) = (sizes.terms / 2, sizes.precision);
    let of_left = TermLimbs::of(0..half);
    let of_all = TermLimbs::of(0..sizes.terms);
    let mut highest = |value: VectorValue, limbs: u64| {
        let dropped = limbs.min(value.length()).saturating_sub(precision);
        drop_lowest(builder, value, limbs, dropped)
    };
    let (q1, q2) = (highest(left.q, of_left.q)?, highest(right.q, right.q.length())?);
    let t1 = highest(left.t, of_left.t)?;

    let dropped = of_all.t - (precision + 1);
    let p1_limbs = of_left.p.min(left.p.length());
    let t2_limbs = right.t.length();
    let p1 = drop_lowest(builder, left.p, p1_limbs, dropped.saturating_sub(t2_limbs))?;
    let t2 = drop_lowest(builder, right.t, t2_limbs, dropped.saturating_sub(p1_limbs))?;
    let first = multiply(builder, [t1, q2], dropped)?;
    let second = multiply(builder, [p1, t2], dropped)?;
    let terms = [first.value, second.value];
    let value = builder.int_sum(&terms, &[1, sign(half)], precision + 1)?;
    let t = Scaled { value, dropped };

    let mut q = multiply(builder, [q1, q2], of_all.q - precision)?;
    q.value = shortened(builder, q.value, precision)?;
    q.value = builder.pad(q.value, precision)?;
    Ok([q, t])
}

/// The product, of which all limbs below `dropped` are dropped.
fn multiply(builder: &mut ProgramBuilder, [a, b]: [Scaled; 2], dropped: u64) -> Result<Scaled> {
    let product = builder.int_mul(a.value, b.value)?;
    let more = dropped - a.dropped - b.dropped;
    drop_lowest(builder, product, product.length(), more)
        .map(|product| Scaled { dropped, ..product })
}
