//! Checks products of integers by their residues modulo secret random primes.

use rayon::prelude::*;
use zeroize::{DefaultIsZeroes, Zeroizing};

use crate::{engines::JobControl, error::Result};

/// Primes of a check. A wrong product of at most 2^26 limbs differs from the right one by less than
/// 2^(2^31), which has fewer than 2^25.1 prime factors above 2^62. Of the primes between 2^62 and
/// 2^63, more than 2^56 in number, each is one of them with probability below 2^-30.
const PRIMES: usize = 4;

/// Limbs per task; even.
const TASK: usize = 1 << 14;

/// Bases for which the test of Miller and Rabin is right for all integers of 64 bits.
const WITNESSES: [u64; 7] = [2, 325, 9375, 28178, 450_775, 9_780_504, 1_795_265_022];

/// A product, and its factors, in limbs of 32 bits, the lowest first.
#[derive(Clone, Copy)]
pub struct CheckedInteger<'a> {
    pub a: &'a [u32],
    pub b: &'a [u32],
    pub product: &'a [u32],
}

/// Secret random primes. Wiped when dropped.
pub struct SecretPrimes(Zeroizing<[SecretPrime; PRIMES]>);

/// A prime between 2^62 and 2^63.
#[derive(Clone, Copy, Default)]
struct SecretPrime {
    p: u64,
    /// -1/p modulo 2^64.
    minus_inverse: u64,
}

impl DefaultIsZeroes for SecretPrime {}

type Residues = [u64; PRIMES];

impl SecretPrimes {
    /// Each prime is as likely as any other.
    pub fn random() -> Self {
        Self(Zeroizing::new(std::array::from_fn(|_| SecretPrime::random())))
    }

    /// Whether the product is right. Any wrong product of at most 2^26 limbs passes with
    /// probability below 2^-120. Linear in the lengths; runs in parallel on the current rayon pool.
    ///
    /// Errors: those of `control`.
    pub fn verify(&self, checked: CheckedInteger<'_>, control: &JobControl) -> Result<bool> {
        let CheckedInteger { a, b, product } = checked;
        let [a, b, product] = [a, b, product].map(|limbs| self.residues(limbs, control));
        let a = a?;
        let b = b?;
        let product = product?;
        let mut pairs = self.0.iter().zip(a.iter().zip(b.iter()));
        let expected = |(prime, (a, b)): (&SecretPrime, (&u64, &u64))| prime.multiply(*a, *b);
        Ok(product.iter().all(|residue| pairs.next().map(expected) == Some(*residue)))
    }

    /// The residues of an integer, below the primes.
    fn residues(&self, limbs: &[u32], control: &JobControl) -> Result<Zeroizing<Residues>> {
        let tasks = limbs.par_chunks(TASK).map(|limbs| {
            control.check()?;
            Ok(self.0.each_ref().map(|prime| prime.residue(limbs)))
        });
        let tasks = Zeroizing::new(tasks.collect::<Result<Vec<Residues>>>()?);
        let mut sums = Zeroizing::new([0; PRIMES]);
        for (number, sum) in sums.iter_mut().enumerate() {
            let prime = &self.0[number];
            let step = prime.power(2, 32 * TASK as u64);
            let next = |sum, task: &Residues| prime.add(prime.multiply(sum, step), task[number]);
            *sum = tasks.iter().rev().fold(0, next);
        }
        Ok(sums)
    }
}

impl SecretPrime {
    fn random() -> Self {
        loop {
            let mut bytes = Zeroizing::new([0; 8]);
            getrandom::fill(&mut *bytes).expect("the operating system provides random bytes");
            let candidate = u64::from_le_bytes(*bytes) >> 2 | 1 << 62 | 1;
            if is_prime(candidate) {
                return Self::new(candidate);
            }
        }
    }

    fn new(p: u64) -> Self {
        // Each step of Newton's method doubles the number of right bits; p is right in 3 bits.
        let step = |inverse: u64| inverse.wrapping_mul(2_u64.wrapping_sub(p.wrapping_mul(inverse)));
        let inverse = (0..5).fold(p, |inverse, _| step(inverse));
        Self { p, minus_inverse: inverse.wrapping_neg() }
    }

    /// The residue of an integer, by Montgomery's reduction from its lowest word on.
    fn residue(&self, limbs: &[u32]) -> u64 {
        let mut sum = 0;
        for pair in limbs.chunks(2) {
            let word = u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32;
            let sum_of_words = u128::from(sum) + u128::from(word);
            let multiple = (sum_of_words as u64).wrapping_mul(self.minus_inverse);
            // Below p + 2.
            let reduced = (sum_of_words + u128::from(multiple) * u128::from(self.p)) >> 64;
            sum = if reduced >= u128::from(self.p) {
                reduced as u64 - self.p
            } else {
                reduced as u64
            };
        }
        // Each step divided the integer by 2^64.
        let words = limbs.len().div_ceil(2) as u64;
        self.multiply(sum, self.power(2, 64 * words))
    }

    fn multiply(&self, a: u64, b: u64) -> u64 {
        multiply(a, b, self.p)
    }

    fn power(&self, base: u64, exponent: u64) -> u64 {
        power(base, exponent, self.p)
    }

    fn add(&self, a: u64, b: u64) -> u64 {
        // Both are below 2^63.
        (a + b) % self.p
    }
}

fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut power = 1;
    let mut square = base % modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = multiply(power, square, modulus);
        }
        square = multiply(square, square, modulus);
        exponent >>= 1;
    }
    power
}

/// The test of Miller and Rabin, for odd integers above all witnesses.
fn is_prime(candidate: u64) -> bool {
    let twos = (candidate - 1).trailing_zeros();
    WITNESSES.iter().all(|witness| {
        let mut value = power(*witness, (candidate - 1) >> twos, candidate);
        let mut is_witness = value == 1;
        for _ in 0..twos {
            is_witness |= value == candidate - 1;
            value = multiply(value, value, candidate);
        }
        is_witness
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limbs of all ones: 2^(32 n) - 1.
    fn ones(count: usize) -> Vec<u32> {
        vec![u32::MAX; count]
    }

    /// (2^(32 m) - 1) (2^(32 n) - 1), for m and n of at least 1.
    fn product_of_ones(m: usize, n: usize) -> Vec<u32> {
        let short = m.min(n);
        let long = m.max(n);
        let mut product = vec![0; m + n];
        product[0] = 1;
        product[short..long].fill(u32::MAX);
        product[long..].fill(u32::MAX);
        // 2^(32 (m + n)) - 2^(32 m) - 2^(32 n) + 1.
        product[long] = u32::MAX - 1;
        product
    }

    #[test]
    fn accepts_right_products_only() {
        let primes = SecretPrimes::random();
        let control = JobControl::default();
        for (m, n) in
            [(1, 1), (1, 2), (2, 2), (3, 8), (TASK, 1), (TASK + 1, TASK - 1), (TASK, 3 * TASK + 5)]
        {
            let a = ones(m);
            let b = ones(n);
            let mut product = product_of_ones(m, n);
            let is_right = |product: &[u32]| {
                primes.verify(CheckedInteger { a: &a, b: &b, product }, &control).unwrap()
            };
            assert!(is_right(&product), "{m} and {n} limbs");
            for at in [0, m + n - 1, (m + n) / 2] {
                for bit in [0, 17, 31] {
                    product[at] ^= 1 << bit;
                    assert!(!is_right(&product), "{m} and {n} limbs: {at}, {bit}");
                    product[at] ^= 1 << bit;
                }
            }
            assert!(!is_right(&product[1..]) && !is_right(&[&[0], &product[..]].concat()));
            assert!(is_right(&[&product[..], &[0, 0, 0]].concat()), "the same integer");
        }
    }

    #[test]
    fn primes_are_primes_between_2_to_62_and_2_to_63() {
        for _ in 0..20 {
            let SecretPrimes(primes) = &SecretPrimes::random();
            assert!(primes.iter().all(|prime| (1 << 62..1 << 63).contains(&prime.p)));
            let distinct: std::collections::BTreeSet<_> =
                primes.iter().map(|prime| prime.p).collect();
            assert_eq!(distinct.len(), PRIMES);
        }
        // The largest prime below 2^63, and what is no prime around it.
        let largest = (1_u64 << 63) - 25;
        assert!(is_prime(largest));
        assert!((1..=12).all(|half| !is_prime((1_u64 << 63) + 1 - 2 * half)));
        // A square of a prime, and a product of two primes.
        assert!(
            !is_prime(2_147_483_647 * 2_147_483_647) && !is_prime(4_294_967_291 * 1_073_741_827)
        );
    }

    #[test]
    fn residues_are_those_of_integers() {
        let prime = SecretPrime::new((1 << 63) - 25);
        assert_eq!(prime.residue(&[7]), 7);
        assert_eq!(prime.residue(&[0xffff_ffe7, 0x7fff_ffff]), 0, "p itself");
        assert_eq!(prime.residue(&[0, 0x8000_0000, 0]), 25);
        assert_eq!(prime.residue(&[0, 0, 1]), 50);
    }
}
