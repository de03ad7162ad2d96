//! Checks products of polynomials, whole or reduced, by evaluation at a secret random point.
//!
//! A reduced product of polynomials is checked through its quotient, whose value at a point follows
//! from the factors by Horner's rule, so that a check costs less than the product. A GPU instead
//! computes the whole product, if it is to be checked, and reduces it step by step: its kernels
//! evaluate polynomials, but not all of their suffixes.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::point::PointField;
use crate::{
    curve::{Fr, FrField},
    engines::JobControl,
    error::Result,
    field::{Arithmetic, Element31, ExtensionField, Field31, VectorElements},
};

/// Coefficients per task, and of the parts of a task whose powers of the point are in a table.
const TASK: usize = 1 << 12;
const PART: usize = 1 << 9;

/// A product, and its factors.
pub struct CheckedProduct<'a, E> {
    pub a: &'a [E],
    pub b: &'a [E],
    pub product: &'a [E],
    /// The polynomial that the product is reduced by.
    pub modulus: Option<ProductModulus>,
}

/// `X^n - 1`, or `X^n + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductModulus {
    /// n, not zero.
    pub degree: u64,
    /// Whether it is `X^n + 1`.
    pub is_negacyclic: bool,
}

/// Whether the product is that of the factors. Any wrong product passes with probability below
/// 2^-214. Linear in the lengths; runs in parallel on the current rayon pool.
///
/// Shape: the factors have at least one coefficient; a reduced product has n, and its factors at
/// most n; false otherwise.
/// Errors: those of `control`.
pub fn verify_product(product: &CheckedProduct<'_, Fr>, control: &JobControl) -> Result<bool> {
    is_right(FrField, product, control)
}

/// Like [`verify_product`], over a field of a prime below 2^31, at a point of its extension of
/// degree 8: a wrong product passes with probability below 2^-140.
pub fn verify_product31(
    field: Field31,
    product: &CheckedProduct<'_, Element31>,
    control: &JobControl,
) -> Result<bool> {
    is_right(ExtensionField::new(field), product, control)
}

type Element<P> = <<P as PointField>::Base as VectorElements>::Element;

fn is_right<P: PointField>(
    field: P,
    checked: &CheckedProduct<'_, Element<P>>,
    control: &JobControl,
) -> Result<bool> {
    let &CheckedProduct { a, b, product, modulus } = checked;
    if a.is_empty() || b.is_empty() {
        return Ok(false);
    }
    let full = a.len() + b.len() - 1;
    let degree = modulus.map_or(full as u64, |modulus| modulus.degree);
    let is_reduced = a.len() as u64 <= degree && b.len() as u64 <= degree;
    if product.len() as u64 != degree || !is_reduced {
        return Ok(false);
    }
    let at = SecretPoint::new(field, a.len().max(b.len()).max(product.len()), control);
    let mut expected = field.multiply(&at.evaluate(a)?, &at.evaluate(b)?);
    if let Some(ProductModulus { degree, is_negacyclic }) = modulus {
        // The product is a b - quotient (X^n - 1), or + 1.
        let power = field.power(&at.point, degree);
        let divisor = match is_negacyclic {
            true => field.add(&power, &field.one()),
            false => field.subtract(&power, &field.one()),
        };
        let multiple = field.multiply(&at.quotient(a, b, degree as usize)?, &divisor);
        expected = field.subtract(&expected, &multiple);
    }
    Ok(expected == at.evaluate(product)?)
}

/// A secret point, and its first powers.
struct SecretPoint<'c, P: PointField> {
    field: P,
    control: &'c JobControl,
    point: Zeroizing<P::Point>,
    /// As many as parts need: at most `PART`, and one more.
    powers: Zeroizing<Vec<P::Point>>,
}

impl<'c, P: PointField> SecretPoint<'c, P> {
    /// For polynomials of at most `longest` coefficients.
    fn new(field: P, longest: usize, control: &'c JobControl) -> Self {
        let point = Zeroizing::new(field.random());
        let next = |power: &P::Point| Some(field.multiply(power, &point));
        let count = longest.clamp(P::BLOCK, PART) + 1;
        let mut powers = Zeroizing::new(Vec::with_capacity(count));
        powers.extend(std::iter::successors(Some(field.one()), next).take(count));
        Self { field, control, point, powers }
    }

    /// The value of a polynomial with at most `PART` coefficients.
    fn evaluate_part(&self, coefficients: &[Element<P>]) -> P::Point {
        let mut sum = P::Point::default();
        for (coefficient, power) in coefficients.iter().zip(self.powers.iter()) {
            sum = self.field.add(&sum, &self.field.scale(power, *coefficient));
        }
        sum
    }

    /// `sum of values[i] * base^i`.
    fn horner(&self, values: &[P::Point], base: &P::Point) -> P::Point {
        let next = |sum, value: &_| self.field.add(&self.field.multiply(&sum, base), value);
        values.iter().rev().fold(P::Point::default(), next)
    }

    /// The value of a polynomial, on this thread.
    fn evaluate_task(&self, coefficients: &[Element<P>]) -> Result<P::Point> {
        self.control.check()?;
        let parts = coefficients.chunks(PART).map(|part| self.evaluate_part(part));
        // If polynomials are shorter than a part, there is one, and no power is used.
        let of_part = self.powers.last().copied().unwrap_or_default();
        Ok(self.horner(&Zeroizing::new(parts.collect::<Vec<_>>()), &of_part))
    }

    fn evaluate(&self, coefficients: &[Element<P>]) -> Result<P::Point> {
        let tasks = coefficients.par_chunks(TASK).map(|task| self.evaluate_task(task));
        let values = Zeroizing::new(tasks.collect::<Result<Vec<_>>>()?);
        Ok(self.horner(&values, &self.field.power(&self.point, TASK as u64)))
    }

    /// The value of the quotient of a b by a divisor of degree n: the sum of a\[i\] t(i) over i,
    /// where t(i) is the value of the polynomial whose coefficients are the last i of the n of b.
    fn quotient(&self, a: &[Element<P>], b: &[Element<P>], n: usize) -> Result<P::Point> {
        let tasks: Vec<_> = (0..a.len()).step_by(TASK).collect();
        let ends = tasks.par_iter().map(|first| self.evaluate_task(last(b, n, *first, TASK)));
        let mut starts = Zeroizing::new(ends.collect::<Result<Vec<_>>>()?);
        let step = self.field.power(&self.point, TASK as u64);
        let mut start = P::Point::default();
        for end in starts.iter_mut() {
            let next = self.field.add(&self.field.multiply(&start, &step), end);
            *end = std::mem::replace(&mut start, next);
        }
        let sums = tasks.par_iter().zip(starts.par_iter()).map(|(first, start)| {
            self.control.check()?;
            let a = &a[*first..a.len().min(first + TASK)];
            Ok(self.quotient_task(a, b, n - first, *start))
        });
        sums.try_reduce(P::Point::default, |a, b| Ok(self.field.add(&a, &b)))
    }

    /// The part of [`Self::quotient`] for some coefficients of a; `start` is t of the first one,
    /// and n is counted from it.
    fn quotient_task(
        &self,
        a: &[Element<P>],
        b: &[Element<P>],
        n: usize,
        start: P::Point,
    ) -> P::Point {
        let (field, base) = (self.field, self.field.base());
        let zero = Element::<P>::default();
        let mut sum = P::Point::default();
        let mut start = start;
        // The sums of the products whose indices differ from n by 0, 1, ... within blocks.
        let mut within = Zeroizing::new(vec![zero; P::BLOCK]);
        for (number, block) in a.chunks(P::BLOCK).enumerate() {
            let first = number * P::BLOCK;
            let value = self.evaluate_part(block);
            sum = field.add(&sum, &field.multiply(&start, &value));
            let of_b = last(b, n, first, P::BLOCK);
            // b[n - first - i] is at `position` - i.
            let position = P::BLOCK.min(n - first);
            for (i, coefficient) in block.iter().enumerate().skip(1) {
                for distance in 0..i {
                    let other = of_b.get(position - (i - distance)).copied().unwrap_or(zero);
                    let product = base.multiply(*coefficient, other);
                    within[distance] = base.add(within[distance], product);
                }
            }
            let power = &self.powers[P::BLOCK];
            start = field.add(&field.multiply(&start, power), &self.evaluate_part(of_b));
        }
        field.add(&sum, &self.evaluate_part(&within))
    }
}

/// The `count` coefficients before index `n - first`, or fewer, of b, which has n with its leading
/// zeros.
fn last<E>(b: &[E], n: usize, first: usize, count: usize) -> &[E] {
    let end = n - first;
    &b[end.saturating_sub(count).min(b.len())..end.min(b.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    /// Lengths of the factors and the degree of the modulus: degenerate, and around tasks.
    const SHAPES: [(usize, usize, Option<usize>); 14] = [
        (1, 1, None),
        (3, 2, None),
        (600, 4200, None),
        (1, 1, Some(1)),
        (1, 2, Some(7)),
        (5, 7, Some(7)),
        (40, 40, Some(40)),
        (17, 40, Some(41)),
        (40, 17, Some(41)),
        (33, 33, Some(60)),
        (TASK, 20, Some(TASK)),
        (TASK + 5, 20, Some(TASK + 6)),
        (20, TASK + 5, Some(TASK + 5)),
        (TASK + 70, TASK + 2, Some(TASK + 71)),
    ];

    fn elements<F: Arithmetic>(field: F, count: usize, seed: u64) -> Vec<F::Element> {
        let mut power = field.power(field.add(field.one(), field.one()), seed);
        let base = seed + 5;
        let step = (0..base).fold(F::Element::default(), |sum, _| field.add(sum, field.one()));
        (0..count)
            .map(|_| {
                power = field.add(field.multiply(power, step), field.one());
                power
            })
            .collect()
    }

    fn product<F: Arithmetic>(
        field: F,
        a: &[F::Element],
        b: &[F::Element],
        modulus: Option<ProductModulus>,
    ) -> Vec<F::Element> {
        let length = modulus.map_or(a.len() + b.len() - 1, |modulus| modulus.degree as usize);
        let mut out = vec![F::Element::default(); length];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let (wraps, at) = ((i + j) / length, (i + j) % length);
                let is_negative =
                    wraps == 1 && modulus.is_some_and(|modulus| modulus.is_negacyclic);
                let product = field.multiply(*a, *b);
                out[at] = match is_negative {
                    true => field.subtract(out[at], product),
                    false => field.add(out[at], product),
                };
            }
        }
        out
    }

    fn accepts_right_products_only<P: PointField>(point_field: P) {
        let field = point_field.base();
        let control = JobControl::default();
        for (of_a, of_b, degree) in SHAPES {
            let (a, b) = (elements(field, of_a, 1), elements(field, of_b, 2));
            for is_negacyclic in [false, true] {
                let modulus =
                    degree.map(|degree| ProductModulus { degree: degree as u64, is_negacyclic });
                let mut product = product(field, &a, &b, modulus);
                let is_right = |a: &[_], b: &[_], product: &[_]| {
                    let checked = CheckedProduct { a, b, product, modulus };
                    is_right(point_field, &checked, &control).expect("not cancelled")
                };
                assert!(is_right(&a, &b, &product), "{of_a} {of_b} {modulus:?}");
                for wrong in [0, product.len() / 2, product.len() - 1] {
                    let right = product[wrong];
                    product[wrong] = field.add(right, field.one());
                    assert!(!is_right(&a, &b, &product), "{of_a} {of_b} {modulus:?} at {wrong}");
                    product[wrong] = right;
                }
                let longer = [&product[..], &[field.one()]].concat();
                assert!(!is_right(&a, &b, &longer) && !is_right(&a, &b, &product[1..]));
                assert!(!is_right(&[], &b, &product) && !is_right(&a, &[], &product));
            }
        }
    }

    #[test]
    fn accepts_right_products_only_over_fr() {
        accepts_right_products_only(FrField);
    }

    #[test]
    fn accepts_right_products_only_over_31_bit_primes() {
        for prime in [Prime31::P7340033, Prime31::KoalaBear] {
            accepts_right_products_only(ExtensionField::new(Field31::new(prime)));
        }
    }
}
