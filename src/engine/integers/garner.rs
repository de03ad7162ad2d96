//! Garner's algorithm: a coefficient from its residues modulo three primes.

use crate::field::{Arithmetic, Element31, Field31, Prime31};

/// The primes, which have transforms of 2^26 elements. Their product is above 2^90: a sum of 2^26
/// products of limbs is below it.
pub(super) const PRIMES: [Prime31; 3] =
    [Prime31::P469762049, Prime31::P1811939329, Prime31::BabyBear];

/// Constants of the algorithm.
pub(super) struct Garner {
    fields: [Field31; 3],
    /// 1/p0 modulo p1 and p2, and 1/p1 modulo p2.
    inverses: [Element31; 3],
}

impl Garner {
    pub fn new() -> Self {
        let fields = PRIMES.map(Field31::new);
        let [p0, p1, _] = fields.map(Field31::modulus);
        let inverse = |field: Field31, prime| {
            field.inverse(field.element(prime)).expect("the primes are distinct")
        };
        let inverses = [inverse(fields[1], p0), inverse(fields[2], p0), inverse(fields[2], p1)];
        Self { fields, inverses }
    }

    /// The coefficient with these residues, below the product of the primes.
    #[inline]
    pub fn coefficient(&self, residues: [Element31; 3]) -> u128 {
        let &Self { fields: [f0, f1, f2], inverses: [of_p0_1, of_p0_2, of_p1_2] } = self;
        // The coefficient is r0 + p0 (t1 + p1 t2).
        let r0 = f0.value(residues[0]);
        let t1 = f1.multiply(f1.subtract(residues[1], f1.element(r0)), of_p0_1);
        let t1 = f1.value(t1);
        let quotient = f2.multiply(f2.subtract(residues[2], f2.element(r0)), of_p0_2);
        let t2 = f2.multiply(f2.subtract(quotient, f2.element(t1)), of_p1_2);
        let digits = u64::from(f2.value(t2)) * u64::from(f1.modulus()) + u64::from(t1);
        u128::from(digits) * u128::from(f0.modulus()) + u128::from(r0)
    }
}
