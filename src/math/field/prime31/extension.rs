//! The extension of degree 8 of a field of prime order: polynomials modulo `X^8 - g` for the
//! generator g, which is irreducible because g is not a square and 4 divides p - 1. It has more
//! than 2^182 elements, so nobody guesses a random one.

use super::{Element31, Field31};
use crate::field::Arithmetic;

/// The degree of the extension.
const DEGREE: usize = 8;

/// Coefficients of 1, X, ..., X^7.
pub type Extension = [Element31; DEGREE];

/// The extension of a field.
#[derive(Clone, Copy)]
pub struct ExtensionField {
    /// The field that it extends.
    pub base: Field31,
    /// X^8.
    generator: Element31,
}

impl ExtensionField {
    /// The extension of `base`.
    pub fn new(base: Field31) -> Self {
        let generator = base.generator();
        Self { base, generator }
    }

    /// 1.
    pub fn one(self) -> Extension {
        let mut one = Extension::default();
        one[0] = self.base.one();
        one
    }

    /// A random element that is not in the field itself, for checks.
    pub fn random_point(self) -> Extension {
        let zero = Element31::default();
        loop {
            let point: Extension = std::array::from_fn(|_| {
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
                // Reducing 64 bits modulo p gives a bias below 2^-32.
                let value = u64::from_le_bytes(bytes) % u64::from(self.base.modulus());
                self.base.element(value as u32)
            });
            if point[1..].iter().any(|coefficient| *coefficient != zero) {
                return point;
            }
        }
    }

    /// `a + b`.
    #[inline]
    pub fn add(self, a: &Extension, b: &Extension) -> Extension {
        std::array::from_fn(|i| self.base.add(a[i], b[i]))
    }

    /// `a - b`.
    #[inline]
    pub fn subtract(self, a: &Extension, b: &Extension) -> Extension {
        std::array::from_fn(|i| self.base.subtract(a[i], b[i]))
    }

    /// `scalar * a`.
    #[inline]
    pub fn scale(self, a: &Extension, scalar: Element31) -> Extension {
        a.map(|coefficient| self.base.multiply(coefficient, scalar))
    }

    /// `a b`.
    pub fn multiply(self, a: &Extension, b: &Extension) -> Extension {
        let mut product = Extension::default();
        // The products with the coefficients of b, from the highest to the lowest, each times X.
        for coefficient in b.iter().rev() {
            product.rotate_right(1);
            product[0] = self.base.multiply(product[0], self.generator);
            product = self.add(&product, &self.scale(a, *coefficient));
        }
        product
    }

    /// `base^exponent`.
    pub fn power(self, base: &Extension, mut exponent: u64) -> Extension {
        let (mut power, mut square) = (self.one(), *base);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = self.multiply(&power, &square);
            }
            square = self.multiply(&square, &square);
            exponent >>= 1;
        }
        power
    }

    /// For i below 8, `point^i (point^n - 1) / -n` with n = 2^`lg_n`. With them, the value at
    /// `point` of a polynomial with value y_j at c_j, the nth roots of unity, is the sum of
    /// `weights[i] y_j c_j q_ij / m(c_j)` over all i and j: m is the point's characteristic
    /// polynomial, and the q_ij are the coefficients of `(m - m(c_j)) / (Y - c_j)`.
    pub fn interpolation_weights(self, point: &Extension, lg_n: u32) -> [Extension; DEGREE] {
        let base = self.base;
        let minus_n = base.subtract(Element31::default(), base.element(1 << lg_n));
        let factor = base.inverse(minus_n).expect("a power of two is not a multiple of p");
        let vanishing = self.subtract(&self.power(point, 1 << lg_n), &self.one());
        let mut weight = self.scale(&vanishing, factor);
        std::array::from_fn(|_| {
            let own = weight;
            weight = self.multiply(&weight, point);
            own
        })
    }

    /// The characteristic polynomial of `a` over the base field, without its leading coefficient 1,
    /// the lowest coefficient first: the product of `Y - c` over the conjugates c of `a`.
    pub fn characteristic_polynomial(self, a: &Extension) -> [Element31; DEGREE] {
        // The map x -> x^p takes X to X * g^((p-1)/8).
        let exponent = u64::from(self.base.modulus() - 1) / DEGREE as u64;
        let root = self.base.power(self.generator, exponent);
        let (mut conjugate, mut polynomial) = (*a, [Extension::default(); DEGREE + 1]);
        polynomial[0] = self.one();
        for degree in 0..DEGREE {
            // Times Y - conjugate.
            for i in (0..=degree).rev() {
                let low = self.multiply(&polynomial[i], &conjugate);
                polynomial[i + 1] = self.add(&polynomial[i + 1], &polynomial[i]);
                polynomial[i] = self.subtract(&Extension::default(), &low);
            }
            let mut factor = self.base.one();
            for coefficient in &mut conjugate {
                *coefficient = self.base.multiply(*coefficient, factor);
                factor = self.base.multiply(factor, root);
            }
        }
        std::array::from_fn(|i| polynomial[i][0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Prime31;

    fn samples(base: Field31) -> Vec<Extension> {
        let element = |i: u32| base.element(i.wrapping_mul(0x9e37_79b9) ^ i.rotate_left(13));
        (0..4).map(|n| std::array::from_fn(|i| element(8 * n + i as u32 + 1))).collect()
    }

    #[test]
    fn products_are_those_of_a_field() {
        for prime in Prime31::ALL {
            let field = ExtensionField::new(Field31::new(*prime));
            let all = samples(field.base);
            let [a, b, c] = [all[0], all[1], all[2]];
            assert!(field.multiply(&a, &field.one()) == a);
            assert!(field.multiply(&a, &b) == field.multiply(&b, &a));
            let (left, right) = (field.add(&a, &b), field.multiply(&b, &c));
            let distributed = field.add(&field.multiply(&a, &c), &right);
            assert!(field.multiply(&left, &c) == distributed);
            assert!(field.multiply(&field.multiply(&a, &b), &c) == field.multiply(&a, &right));
            // X^8 is the generator.
            let mut x = Extension::default();
            x[1] = field.base.one();
            let mut generator = Extension::default();
            generator[0] = field.base.element(prime.generator());
            assert!(field.power(&x, 8) == generator);
        }
    }

    /// It would not be if the polynomial of the extension were reducible.
    #[test]
    fn every_element_is_a_root_of_its_characteristic_polynomial() {
        for prime in Prime31::ALL {
            let field = ExtensionField::new(Field31::new(*prime));
            for element in samples(field.base) {
                let coefficients = field.characteristic_polynomial(&element);
                let mut value = field.one();
                for coefficient in coefficients.into_iter().rev() {
                    value = field.multiply(&value, &element);
                    value[0] = field.base.add(value[0], coefficient);
                }
                assert!(value == Extension::default(), "{prime}");
            }
        }
    }
}
