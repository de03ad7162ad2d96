//! Arithmetic of a field of prime order below 2^31, in Montgomery form with the factor 2^32.
//! Differences of two elements fit in a signed word, so its sign tells whether to add the prime:
//! without a branch, and with instructions that every x86-64 has for vectors.

use zeroize::DefaultIsZeroes;

use super::Prime31;
use crate::field::{Arithmetic, FieldId, VectorElements};

/// An element in Montgomery form: `2^32 x mod p`, below p. Its vector knows the prime.
#[derive(Clone, Copy, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Element31(u32);

impl DefaultIsZeroes for Element31 {}

/// A field of prime order below 2^31.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Field31 {
    prime: Prime31,
    p: u32,
    /// 1/p mod 2^32.
    p_inverse: u32,
    /// 2^64 mod p, which converts to Montgomery form.
    r_squared: u32,
}

impl Field31 {
    /// The field of this order.
    pub const fn new(prime: Prime31) -> Self {
        let p = prime.modulus();
        // Each step of Newton's method doubles the number of right bits; p is right in 3 bits.
        let mut p_inverse = p;
        let mut step = 0;
        while step < 4 {
            p_inverse = p_inverse.wrapping_mul(2_u32.wrapping_sub(p.wrapping_mul(p_inverse)));
            step += 1;
        }
        let r = (1 << 32) % p as u64;
        let r_squared = (r * r % p as u64) as u32;
        Self { prime, p, p_inverse, r_squared }
    }

    /// The prime.
    pub const fn modulus(self) -> u32 {
        self.p
    }

    /// The smallest generator of the multiplicative group.
    pub const fn generator(self) -> Element31 {
        self.element(self.prime.generator())
    }

    /// The element with this value, which may be any integer of 32 bits.
    #[inline]
    pub const fn element(self, value: u32) -> Element31 {
        Element31(self.reduce(value as u64 * self.r_squared as u64))
    }

    /// The value of an element, below p.
    #[inline]
    pub const fn value(self, element: Element31) -> u32 {
        self.reduce(element.0 as u64)
    }

    /// An element from its Montgomery form; `None` for p and above.
    pub const fn montgomery_element(self, word: u32) -> Option<Element31> {
        if word < self.p { Some(Element31(word)) } else { None }
    }

    /// The root of unity of order 2^`lg_n`: `g^((p-1)/2^lg_n)` for the smallest generator g.
    /// `None` if `lg_n` is above the two-adicity.
    pub fn root_of_unity(self, lg_n: u32) -> Option<Element31> {
        let is_served = lg_n <= self.prime.two_adicity();
        is_served.then(|| self.power(self.generator(), u64::from(self.p - 1) >> lg_n))
    }

    /// `x / 2^32 mod p`, for x below `2^32 p`.
    #[inline]
    const fn reduce(self, x: u64) -> u32 {
        let multiple = (x as u32).wrapping_mul(self.p_inverse);
        let high = ((multiple as u64 * self.p as u64) >> 32) as u32;
        self.corrected(((x >> 32) as u32).wrapping_sub(high))
    }

    /// Adds p if `difference`, from -p to p - 1, is negative.
    #[inline]
    const fn corrected(self, difference: u32) -> u32 {
        let sign_mask = (difference as i32 >> 31) as u32;
        difference.wrapping_add(self.p & sign_mask)
    }
}

impl VectorElements for Field31 {
    type Element = Element31;

    fn id(self) -> FieldId {
        FieldId::Prime31(self.prime)
    }
}

impl Arithmetic for Field31 {
    #[inline]
    fn one(self) -> Element31 {
        self.element(1)
    }

    #[inline]
    fn add(self, a: Element31, b: Element31) -> Element31 {
        Element31(self.corrected(a.0.wrapping_add(b.0).wrapping_sub(self.p)))
    }

    #[inline]
    fn subtract(self, a: Element31, b: Element31) -> Element31 {
        Element31(self.corrected(a.0.wrapping_sub(b.0)))
    }

    #[inline]
    fn multiply(self, a: Element31, b: Element31) -> Element31 {
        Element31(self.reduce(u64::from(a.0).wrapping_mul(u64::from(b.0))))
    }

    fn inverse(self, a: Element31) -> Option<Element31> {
        (a != Element31::default()).then(|| self.power(a, u64::from(self.p) - 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values at the borders of the field, and some between them.
    fn samples(p: u32) -> Vec<u32> {
        let spread = (0..40_u64).map(|i| (i * i * 0x1234_5671 % u64::from(p)) as u32);
        [0, 1, 2, p / 2, p - 2, p - 1].into_iter().chain(spread).collect()
    }

    #[test]
    fn arithmetic_equals_that_of_integers() {
        for field in Prime31::ALL.iter().map(|prime| Field31::new(*prime)) {
            let p = field.modulus();
            for (x, y) in
                samples(p).into_iter().flat_map(|x| samples(p).into_iter().map(move |y| (x, y)))
            {
                let (a, b) = (field.element(x), field.element(y));
                let (wide_x, wide_y, wide_p) = (u64::from(x), u64::from(y), u64::from(p));
                let is = |element, value: u64| assert_eq!(u64::from(field.value(element)), value);
                is(field.add(a, b), (wide_x + wide_y) % wide_p);
                is(field.subtract(a, b), (wide_x + wide_p - wide_y) % wide_p);
                is(field.multiply(a, b), wide_x * wide_y % wide_p);
                match field.inverse(a) {
                    Some(inverse) => assert!(field.multiply(inverse, a) == field.one()),
                    None => assert_eq!(x, 0),
                }
            }
            for large in [p, p + 1, u32::MAX] {
                assert_eq!(field.value(field.element(large)), large % p, "not reduced");
                assert!(field.montgomery_element(large).is_none());
            }
            assert!(field.montgomery_element(p - 1).is_some());
        }
    }

    #[test]
    fn roots_of_unity_have_their_order_and_come_from_the_smallest_generator() {
        for prime in Prime31::ALL {
            let field = Field31::new(*prime);
            let lg_max = prime.two_adicity();
            assert_eq!((prime.modulus() - 1).trailing_zeros(), lg_max);
            assert!(field.root_of_unity(lg_max + 1).is_none());
            for lg_n in 1..=lg_max {
                let root = field.root_of_unity(lg_n).unwrap();
                let minus_one = field.subtract(Element31::default(), field.one());
                assert!(field.power(root, 1 << (lg_n - 1)) == minus_one, "{prime} 2^{lg_n}");
                let smaller = field.root_of_unity(lg_n - 1).unwrap();
                assert!(field.multiply(root, root) == smaller, "{prime} 2^{lg_n}");
            }
            let factors = prime_factors(prime.modulus() - 1);
            let generates = |g: &u32| {
                let exponents = factors.iter().map(|q| u64::from((prime.modulus() - 1) / q));
                let mut powers = exponents.map(|e| field.power(field.element(*g), e));
                powers.all(|power| power != field.one())
            };
            assert_eq!((2..100).find(generates), Some(prime.generator()), "{prime}");
        }
    }

    fn prime_factors(n: u32) -> Vec<u32> {
        let mut rest = n;
        let mut factors = Vec::new();
        for factor in 2..=n {
            if rest == 1 {
                break;
            }
            if rest.is_multiple_of(factor) {
                factors.push(factor);
            }
            while rest.is_multiple_of(factor) {
                rest /= factor;
            }
        }
        factors
    }
}
